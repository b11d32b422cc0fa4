//! Which runtime a person wants, and the sockets where it may be found.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which runtime to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first that answers; Docker before Podman.
    #[default]
    Auto,
    Docker,
    Podman,
    /// Whatever answers on this socket.
    Socket(PathBuf),
}

/// A choice that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no container runtime: write auto, docker, podman or the path of a socket")]
pub struct ChoiceError(String);

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "docker" => Ok(Self::Docker),
            "podman" => Ok(Self::Podman),
            _ => {
                let path = Path::new(text.strip_prefix("unix://").unwrap_or(text));
                if path.is_absolute() {
                    Ok(Self::Socket(path.to_owned()))
                } else {
                    Err(ChoiceError(text.to_owned()))
                }
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Docker => f.write_str("docker"),
            Self::Podman => f.write_str("podman"),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// A place to look for a runtime, and where the idea comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// As a person would write it.
    pub name: String,
    pub socket: Result<PathBuf, &'static str>,
}

impl Candidate {
    fn path(path: PathBuf) -> Self {
        Self { name: path.display().to_string(), socket: Ok(path) }
    }

    /// A variable that names a host; only Unix sockets are spoken to.
    fn host(variable: &str, value: &str) -> Self {
        let name = format!("{variable}={value}");
        let socket = match value.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Ok(PathBuf::from(path)),
            _ => Err("only unix:///PATH is understood"),
        };
        Self { name, socket }
    }
}

/// The places to look, in order of preference, without doubles.
pub(crate) fn candidates(
    choice: &Choice,
    env: impl Fn(&str) -> Option<OsString>,
    uid: u32,
) -> Vec<Candidate> {
    if let Choice::Socket(path) = choice {
        return vec![Candidate::path(path.clone())];
    }
    let text =
        |name: &str| env(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
    let runtime_dir =
        text("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from(format!("/run/user/{uid}")), PathBuf::from);

    let mut docker = Vec::new();
    docker.extend(text("DOCKER_HOST").map(|host| Candidate::host("DOCKER_HOST", &host)));
    docker.push(Candidate::path(PathBuf::from("/var/run/docker.sock")));
    docker.push(Candidate::path(runtime_dir.join("docker.sock")));
    docker.extend(text("HOME").map(|home| Candidate::path(Path::new(&home).join(".docker/run/docker.sock"))));

    let mut podman = Vec::new();
    podman.extend(text("CONTAINER_HOST").map(|host| Candidate::host("CONTAINER_HOST", &host)));
    podman.push(Candidate::path(runtime_dir.join("podman/podman.sock")));
    podman.push(Candidate::path(PathBuf::from("/run/podman/podman.sock")));

    let mut all = match choice {
        // Podman also answers on Docker's socket where it stands in for it.
        Choice::Podman => [podman, docker].concat(),
        Choice::Docker => docker,
        Choice::Auto | Choice::Socket(_) => [docker, podman].concat(),
    };
    let mut seen = Vec::new();
    all.retain(|candidate| match &candidate.socket {
        Ok(path) if seen.contains(path) => false,
        Ok(path) => {
            seen.push(path.clone());
            true
        }
        Err(_) => true,
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(choice: &Choice, env: &[(&str, &str)]) -> Vec<String> {
        let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        candidates(choice, env, 1000).into_iter().map(|candidate| candidate.name).collect()
    }

    #[test]
    fn looks_in_the_usual_places_docker_first() {
        assert_eq!(
            names(&Choice::Auto, &[("HOME", "/home/ada")]),
            [
                "/var/run/docker.sock",
                "/run/user/1000/docker.sock",
                "/home/ada/.docker/run/docker.sock",
                "/run/user/1000/podman/podman.sock",
                "/run/podman/podman.sock",
            ]
        );
    }

    #[test]
    fn environment_comes_first_and_nothing_twice() {
        let env = [("DOCKER_HOST", "unix:///var/run/docker.sock"), ("XDG_RUNTIME_DIR", "/x")];
        assert_eq!(
            names(&Choice::Docker, &env),
            ["DOCKER_HOST=unix:///var/run/docker.sock", "/x/docker.sock"]
        );
    }

    #[test]
    fn a_remote_host_is_named_and_not_tried() {
        let env = |name: &str| (name == "DOCKER_HOST").then(|| OsString::from("tcp://10.0.0.1:2375"));
        let found = candidates(&Choice::Docker, env, 0);
        assert_eq!(found[0].name, "DOCKER_HOST=tcp://10.0.0.1:2375");
        assert!(found[0].socket.is_err());
    }

    #[test]
    fn podman_is_asked_for_by_its_own_sockets_first() {
        assert_eq!(names(&Choice::Podman, &[])[0], "/run/user/1000/podman/podman.sock");
    }

    #[test]
    fn a_given_socket_is_the_only_one() {
        assert_eq!(names(&Choice::Socket("/s".into()), &[("DOCKER_HOST", "unix:///x")]), ["/s"]);
    }

    #[test]
    fn reads_choices() {
        assert_eq!("auto".parse::<Choice>().unwrap(), Choice::Auto);
        assert_eq!("/run/x.sock".parse::<Choice>().unwrap(), Choice::Socket("/run/x.sock".into()));
        assert_eq!("unix:///run/x.sock".parse::<Choice>().unwrap(), Choice::Socket("/run/x.sock".into()));
        assert!("dokcer".parse::<Choice>().unwrap_err().to_string().contains("auto, docker, podman"));
    }
}
