//! `cargo xtask image`: the container image as an archive, without Docker. From scratch: the static program, a bundle of
//! certificate authorities and a user. One commit, compiler and bundle give the same digest, wherever the tree is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use causeway_testkit::kubernetes::{File, Image};

const USAGE: &str = "\
usage: cargo xtask image [--output FILE] [--name NAME] [--profile PROFILE] [--ca-bundle FILE]

  --output FILE      the archive; default TARGET/causeway-image.tar
  --name NAME        name and tag in it; default causeway.dev/causeway:VERSION
  --profile PROFILE  how the program is built; default dist
  --ca-bundle FILE   whom the program trusts; default /etc/ssl/certs/ca-certificates.crt

`docker load -i`, `podman load -i`, `ctr images import` and `cargo xtask cluster load-image` read the archive.";

/// What lists the crates of a program in the program itself, for those who look for known faults.
const AUDITABLE: &str = "0.7.7";
/// Nobody on a usual machine.
const USER: &str = "65532:65532";
const PASSWD: &str = "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n";
const GROUP: &str = "nonroot:x:65532:\n";

pub(crate) fn main(mut arguments: Vec<String>, root: &Path) -> anyhow::Result<()> {
    let mut option = |name: &str| -> anyhow::Result<Option<String>> {
        let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(None) };
        ensure!(at + 1 < arguments.len(), "{name} needs a value\n\n{USAGE}");
        arguments.remove(at);
        Ok(Some(arguments.remove(at)))
    };
    let version = env!("CARGO_PKG_VERSION");
    let name = option("--name")?.unwrap_or_else(|| format!("causeway.dev/causeway:{version}"));
    let profile = option("--profile")?.unwrap_or_else(|| "dist".to_owned());
    let bundle = option("--ca-bundle")?.unwrap_or_else(|| "/etc/ssl/certs/ca-certificates.crt".to_owned());
    let target = target_directory(root)?;
    let output = option("--output")?.map_or_else(|| target.join("causeway-image.tar"), PathBuf::from);
    if !arguments.is_empty() {
        bail!("{USAGE}");
    }

    let program = build(root, &target, &profile)?;
    let size = program.len();
    let image = of(&name, program, fs::read(&bundle).with_context(|| bundle.clone())?, &commit(root)?);
    let digest = image.write(&output)?;
    println!("{}", output.display());
    println!("{name} {digest}");
    println!(
        "program {:.1} MB, archive {:.1} MB",
        megabytes(size),
        megabytes(fs::metadata(&output)?.len() as usize)
    );
    Ok(())
}

/// The image of a program.
fn of(name: &str, program: Vec<u8>, bundle: Vec<u8>, commit: &Commit) -> Image {
    let read_only = |path: &str, content: Vec<u8>| File { path: path.to_owned(), mode: 0o444, content };
    let labels = [
        ("title", "causeway"),
        ("description", "Carries traffic across network boundaries"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("revision", &commit.id),
        ("created", &commit.time),
    ];
    Image {
        name: name.to_owned(),
        entrypoint: vec!["/causeway".to_owned()],
        files: vec![
            File { path: "causeway".to_owned(), mode: 0o555, content: program },
            read_only("etc/ssl/certs/ca-certificates.crt", bundle),
            read_only("etc/passwd", PASSWD.into()),
            read_only("etc/group", GROUP.into()),
        ],
        user: USER.to_owned(),
        labels: labels
            .map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned()))
            .into(),
        created: Some(commit.time.clone()),
        compressed: true,
        ..Image::default()
    }
}

/// What the image is made from. A tree with changes of its own is said to be one.
struct Commit {
    id: String,
    time: String,
}

fn commit(root: &Path) -> anyhow::Result<Commit> {
    let git =
        |arguments: &[&str]| said(Command::new("git").arg("-C").arg(root).args(arguments).env("TZ", "UTC0"));
    let changed = if git(&["status", "--porcelain"])?.is_empty() { "" } else { "-changed" };
    Ok(Commit {
        id: format!("{}{changed}", git(&["rev-parse", "HEAD"])?),
        time: git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"])?,
    })
}

/// Compiles the program, static and without the paths of this machine in it.
fn build(root: &Path, target: &Path, profile: &str) -> anyhow::Result<Vec<u8>> {
    let triple = said(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("no home")?;
    let sysroot = said(Command::new("rustc").args(["--print", "sysroot"]))?;
    let places = [(root, "/causeway"), (target, "/target"), (&cargo_home, "/cargo")];
    let c = places.map(|(place, name)| format!("-ffile-prefix-map={}={name}", place.display())).join(" ");
    let status = Command::new("cargo")
        .args(["build", "--locked", "--package", "causeway", "--bin", "causeway"])
        .args(["--profile", profile, "--target", &triple])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("RUSTC_WRAPPER", root.join("scripts/image-rustc"))
        .env("AUDITABLE", auditable(target)?)
        // What cargo-auditable hands on to the Cargo that it asks for the crates.
        .env("CARGO_AUDITABLE_ORIG_ARGS", r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#)
        .env("SOURCE_DIR", root)
        .env("TARGET_DIR", target)
        .env("CARGO_DIR", cargo_home)
        .env("SYSROOT", sysroot)
        .env("CFLAGS", &c)
        .env("CXXFLAGS", &c)
        .status()?;
    ensure!(status.success(), "the program could not be built");
    let folder = if profile == "dev" { "debug" } else { profile };
    let path = target.join(triple).join(folder).join("causeway");
    fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// `cargo-auditable`, installed beside what is built.
fn auditable(target: &Path) -> anyhow::Result<PathBuf> {
    let tools = target.join(format!("cargo-auditable-{AUDITABLE}"));
    let program = tools.join("bin/cargo-auditable");
    if !program.exists() {
        let status = Command::new("cargo")
            .args(["install", "cargo-auditable", "--locked", "--version", AUDITABLE, "--root"])
            .arg(&tools)
            .status()?;
        ensure!(status.success(), "cargo-auditable could not be installed");
    }
    Ok(program)
}

fn target_directory(root: &Path) -> anyhow::Result<PathBuf> {
    let metadata =
        said(Command::new("cargo").args(["metadata", "--format-version=1", "--no-deps"]).current_dir(root))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    Ok(metadata["target_directory"].as_str().context("cargo names no target directory")?.into())
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use causeway_testkit::daemon::{Daemon, Testbed};

    use super::*;

    /// Debian's static busybox in the place of the program.
    fn image() -> Image {
        let commit = Commit { id: "0123456".to_owned(), time: "2026-11-17T00:00:00Z".to_owned() };
        let busybox = fs::read("/bin/busybox").unwrap();
        let mut image = of("causeway.test/image:1", busybox.clone(), b"trusted".to_vec(), &commit);
        image.files.push(File::program("bin/busybox", busybox));
        image.entrypoint = vec!["/bin/busybox".to_owned()];
        image
    }

    #[test]
    fn the_same_content_gives_the_same_archive() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        assert_eq!(image().write(&first).unwrap(), image().write(&second).unwrap());
        assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap());
    }

    #[test]
    fn docker_and_podman_run_it_as_nobody() {
        for daemon in [Daemon::Docker, Daemon::Podman] {
            let Some(bed) = Testbed::start(daemon) else { continue };
            let archive = tempfile::NamedTempFile::new().unwrap();
            image().write(archive.path()).unwrap();
            let host = format!("unix://{}", bed.socket().display());
            let docker = |arguments: &[&str]| {
                said(Command::new("docker").args(["--host", &host]).args(arguments)).unwrap()
            };
            let loaded = docker(&["load", "--input", &archive.path().to_string_lossy()]);
            assert!(loaded.contains("causeway.test/image:1"), "{daemon:?}: {loaded}");
            let run = ["run", "--rm", "--read-only", "--network=none", "causeway.test/image:1"];
            assert_eq!(docker(&[&run[..], &["id", "-u"]].concat()), "65532", "{daemon:?}");
            let trusted = docker(&[&run[..], &["cat", "/etc/ssl/certs/ca-certificates.crt"]].concat());
            assert_eq!(trusted, "trusted", "{daemon:?}");
            let revision = docker(&[
                "inspect",
                "--format",
                "{{index .Config.Labels \"org.opencontainers.image.revision\"}}",
                "causeway.test/image:1",
            ]);
            assert_eq!(revision, "0123456", "{daemon:?}");
        }
    }
}
