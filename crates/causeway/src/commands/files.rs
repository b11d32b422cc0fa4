//! `causeway files KIND/NAME [PATH]`: the files that a workload's container sees of ConfigMaps, Secrets and its own pod, as far
//! as the caller may read them: listed, or copied here.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use causeway_base::file;
use causeway_node::view::Seeable;
use serde::Serialize;

use crate::parts::answer::{Answer, FormatArg};
use crate::parts::kube_context::ContextArgs;
use crate::parts::paint::{Paint, Tone};
use crate::parts::seen::Seen;
use crate::parts::table::{Cell, table};
use crate::parts::target::{Target, TargetName};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The workload: deploy/NAME, sts/NAME, rs/NAME, ds/NAME or pod/NAME.
    #[arg(value_name = "KIND/NAME")]
    target: TargetName,
    /// A file or directory in the container, to copy [default: list all, copy none].
    path: Option<PathBuf>,
    /// The directory to copy into.
    #[arg(long, requires = "path", default_value = ".", value_name = "DIR")]
    to: PathBuf,
    /// Its container [default: the annotated one, else the first].
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.context.cluster().await?;
    let target = Target::find(&cluster.client, &cluster.namespace, &args.target).await?;
    let seen = Seen::read(&cluster.client, &target, args.container.as_deref(), false).await?;
    let (found, lacks) = seen.files();
    let chosen = match &args.path {
        None => found,
        Some(path) => choose(found, path, &lacks)?,
    };
    let mut copied = Copied { files: Vec::new(), lacks };
    for (path, seen) in chosen {
        let to = args.path.as_ref().map(|asked| relative(&path, asked)).transpose()?;
        let to = to.map(|below| args.to.join(below));
        if let Some(to) = &to {
            write(to, &seen)?;
        }
        copied.files.push(Row {
            path: path.display().to_string(),
            bytes: seen.file.contents.len(),
            secret: seen.is_secret,
            copy: to.map(|to| to.display().to_string()),
        });
    }
    args.format.print(&copied)?;
    Ok(ExitCode::SUCCESS)
}

/// Those at or below a path.
fn choose(
    found: BTreeMap<PathBuf, Seeable>,
    path: &Path,
    lacks: &[String],
) -> anyhow::Result<BTreeMap<PathBuf, Seeable>> {
    ensure!(path.is_absolute(), "{} is no path in a container: it begins with /", path.display());
    let names: Vec<String> = found.keys().map(|path| path.display().to_string()).collect();
    let chosen: BTreeMap<_, _> = found.into_iter().filter(|(one, _)| one.starts_with(path)).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let lacks: Vec<String> = lacks.iter().map(|lack| format!("\nleft out: {lack}")).collect();
    let lacks = lacks.concat();
    if names.is_empty() {
        bail!("it sees no files of ConfigMaps, Secrets or its pod{lacks}");
    }
    bail!("it sees nothing at {}; it sees: {}{lacks}", path.display(), names.join(", "))
}

/// Where a file goes below the directory: as `cp -r` would name it.
fn relative(path: &Path, asked: &Path) -> anyhow::Result<PathBuf> {
    let above = asked.parent().unwrap_or(Path::new("/"));
    let below = path.strip_prefix(above).unwrap_or(path);
    // Others write the paths of containers, and nothing of theirs goes out of the directory.
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_plain, "{} leads out of the directory to copy into: it is not copied", path.display());
    Ok(below.to_owned())
}

fn write(to: &Path, seen: &Seeable) -> anyhow::Result<()> {
    let mode = if seen.is_secret { file::PRIVATE } else { seen.file.mode & 0o755 | 0o600 };
    let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| file::replace(to, mode, &seen.file.contents))
        .with_context(|| format!("can't write {}", to.display()))
}

/// The answer.
#[derive(Serialize)]
struct Copied {
    files: Vec<Row>,
    /// What could not be had, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lacks: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    path: String,
    bytes: usize,
    secret: bool,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
}

impl Answer for Copied {
    fn text(&self, paint: Paint) -> String {
        let mut lines = Vec::new();
        if self.files.is_empty() {
            lines.push("it sees no files of ConfigMaps, Secrets or its pod".to_owned());
        } else {
            let rows = self.files.iter().map(|row| -> [Cell; 4] {
                let kind = if row.secret { "secret" } else { "" };
                let copy = row.copy.as_ref().map(|copy| format!("-> {copy}")).unwrap_or_default();
                [row.path.as_str().into(), row.bytes.to_string().into(), kind.into(), copy.into()]
            });
            lines.push(table(paint, ["PATH", "BYTES", "", ""], rows));
        }
        lines.extend(self.lacks.iter().map(|lack| paint.tint(Tone::Faint, &format!("left out: {lack}"))));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use causeway_node::view::File;

    use super::*;

    fn seen(is_secret: bool, mode: u32) -> Seeable {
        Seeable { file: File { contents: b"x".to_vec(), mode }, is_secret }
    }

    #[test]
    fn files_are_named_as_a_copy_of_the_path_would_name_them() {
        for (path, asked, expected) in [
            ("/etc/app/a/b", "/etc/app", "app/a/b"),
            ("/etc/app/a", "/etc/app/a", "a"),
            ("/etc/app/a", "/", "etc/app/a"),
        ] {
            let below = relative(Path::new(path), Path::new(asked)).unwrap();
            assert_eq!(below, Path::new(expected), "{path} {asked}");
        }
        for (path, asked) in [("/etc/app/../../home/dev/.bashrc", "/etc/app"), ("/../x", "/"), ("/x", "/a/b")]
        {
            assert!(relative(Path::new(path), Path::new(asked)).is_err(), "{path} {asked}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_told_with_those_that_are() {
        let found = || BTreeMap::from([(PathBuf::from("/etc/app/a"), seen(false, 0o644))]);
        assert_eq!(choose(found(), Path::new("/etc/app"), &[]).unwrap().len(), 1);
        let error = choose(found(), Path::new("/etc/ap"), &["/data: only the pod has it".to_owned()]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("nothing at /etc/ap; it sees: /etc/app/a\nleft out: /data"), "{error}");
        assert!(choose(found(), Path::new("etc"), &[]).unwrap_err().to_string().contains("begins with /"));
    }

    #[test]
    fn what_was_secret_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        for (is_secret, mode, expected) in
            [(true, 0o644, 0o600), (false, 0o444, 0o644), (false, 0o777, 0o755)]
        {
            let path = dir.path().join("a/b").join(mode.to_string());
            write(&path, &seen(is_secret, mode)).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, expected);
        }
    }
}
