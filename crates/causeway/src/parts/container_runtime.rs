//! `--container-runtime`: whose containers Causeway runs, for all commands that can run some.

use causeway_containers::Choice;

/// The flag; flatten it into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContainerRuntimeArg {
    /// Docker or Podman for images and tunnels: auto (the first that answers), docker, podman, none, or the path of a
    /// socket.
    #[arg(
        id = "container_runtime",
        long = "container-runtime",
        env = "CAUSEWAY_CONTAINER_RUNTIME",
        default_value = "auto",
        value_name = "auto|docker|podman|none|PATH",
        value_parser = wanted
    )]
    wanted: Wanted,
}

/// A choice, or none at all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted(Option<Choice>);

impl ContainerRuntimeArg {
    /// The choice; none when runtimes are not to be used.
    pub(crate) fn choice(&self) -> Option<Choice> {
        self.wanted.0.clone()
    }
}

fn wanted(text: &str) -> Result<Wanted, String> {
    match text {
        "none" => Ok(Wanted(None)),
        _ => text.parse().map(|choice| Wanted(Some(choice))).map_err(|_| {
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
        assert_eq!(wanted("none").unwrap(), Wanted(None));
        assert_eq!(wanted("auto").unwrap(), Wanted(Some(Choice::Auto)));
        assert_eq!(wanted("/run/x.sock").unwrap(), Wanted(Some(Choice::Socket("/run/x.sock".into()))));
        assert!(wanted("lxc").unwrap_err().contains("auto, docker, podman, none"));
    }
}
