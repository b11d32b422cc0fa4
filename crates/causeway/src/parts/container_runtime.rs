//! `--container-runtime`: whose containers Causeway runs, for all commands that can run some.

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;
use causeway_base::file;
use causeway_containers::Choice;

/// The flag; flatten it into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContainerRuntimeArg {
    /// Docker or Podman for images and tunnels: auto (the first that answers), docker, podman, none, or the path of a
    /// socket [default: auto, or what the control plane of the data directory was started with].
    #[arg(
        id = "container_runtime",
        long = "container-runtime",
        env = "CAUSEWAY_CONTAINER_RUNTIME",
        value_name = "auto|docker|podman|none|PATH",
        value_parser = wanted
    )]
    wanted: Option<Wanted>,
}

/// A choice, or none at all, and how it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    choice: Option<Choice>,
    text: String,
}

/// The file of a data directory that keeps what its control plane was started with.
const FILE: &str = "container-runtime";

impl ContainerRuntimeArg {
    /// The choice; none when runtimes are not to be used.
    pub(crate) fn choice(&self) -> Option<Choice> {
        self.wanted.as_ref().map_or(Some(Choice::Auto), |wanted| wanted.choice.clone())
    }

    /// The same for what a control plane left in `dir`: what it was started with, unless another is asked for.
    pub(crate) fn choice_for(&self, dir: &Path) -> anyhow::Result<Option<Choice>> {
        if self.wanted.is_some() {
            return Ok(self.choice());
        }
        let path = dir.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let recorded = wanted(&text).map_err(anyhow::Error::msg);
                Ok(recorded.with_context(|| format!("can't read {}", path.display()))?.choice)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Choice::Auto)),
            Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
        }
    }

    /// Writes it down in `dir`, for [`Self::choice_for`].
    pub(crate) fn record(&self, dir: &Path) -> anyhow::Result<()> {
        let text = self.wanted.as_ref().map_or("auto", |wanted| wanted.text.as_str());
        let path = dir.join(FILE);
        file::replace(&path, file::PRIVATE, text.as_bytes())
            .with_context(|| format!("can't write {}", path.display()))
    }
}

fn wanted(text: &str) -> Result<Wanted, String> {
    match text {
        "none" => Ok(Wanted { choice: None, text: text.to_owned() }),
        _ => text.parse().map(|choice| Wanted { choice: Some(choice), text: text.to_owned() }).map_err(|_| {
            format!(
                "`{text}` is no container runtime: write auto, docker, podman, none or the path of a socket"
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_spelling() {
        assert_eq!(wanted("none").unwrap().choice, None);
        assert_eq!(wanted("auto").unwrap().choice, Some(Choice::Auto));
        assert_eq!(wanted("/run/x.sock").unwrap().choice, Some(Choice::Socket("/run/x.sock".into())));
        assert!(wanted("lxc").unwrap_err().contains("auto, docker, podman, none"));
    }

    #[test]
    fn what_a_control_plane_was_started_with_counts_unless_another_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let arg = |text: Option<&str>| ContainerRuntimeArg { wanted: text.map(|text| wanted(text).unwrap()) };
        assert_eq!(arg(None).choice_for(dir.path()).unwrap(), Some(Choice::Auto), "never started");
        for (started, found) in [
            (Some("podman"), Some(Choice::Podman)),
            (Some("/run/x.sock"), Some(Choice::Socket("/run/x.sock".into()))),
            (Some("none"), None),
            (None, Some(Choice::Auto)),
        ] {
            arg(started).record(dir.path()).unwrap();
            assert_eq!(arg(None).choice_for(dir.path()).unwrap(), found);
            assert_eq!(arg(Some("docker")).choice_for(dir.path()).unwrap(), Some(Choice::Docker));
        }
    }
}
