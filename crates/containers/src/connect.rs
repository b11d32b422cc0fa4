//! Finding a runtime that answers. All sockets are tried at once and each has two seconds,
//! so that a socket nobody reads from delays nothing for long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use causeway_base::report;
use futures::future::join_all;

use crate::choice::{Candidate, candidates};
use crate::error::{OUT_OF_DESCRIPTORS, is_out_of_descriptors};
use crate::{Choice, Kind, Limits, Runtime};

/// How long one socket may take to say who it is.
const PROBE: Duration = Duration::from_secs(2);

/// No runtime that fits answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", words(choice, tried))]
pub struct Unreachable {
    choice: Choice,
    tried: Vec<Tried>,
}

/// A socket that was tried, and why it was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The socket, with the variable that named it.
    pub name: String,
    pub why: String,
}

impl Unreachable {
    /// Every socket that was tried.
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }
}

fn words(choice: &Choice, tried: &[Tried]) -> String {
    if tried.iter().any(|tried| tried.why == OUT_OF_DESCRIPTORS) {
        return format!("no container runtime can be asked: {OUT_OF_DESCRIPTORS}");
    }
    format!("no container runtime answers: {}; {}", list(tried), advice(choice))
}

fn list(tried: &[Tried]) -> String {
    tried.iter().map(|tried| format!("{} ({})", tried.name, tried.why)).collect::<Vec<_>>().join(", ")
}

fn advice(choice: &Choice) -> &'static str {
    match choice {
        Choice::Docker => {
            "start Docker with `systemctl start docker` or name its socket with --container-runtime PATH"
        }
        Choice::Podman => {
            "start Podman with `systemctl start podman.socket` (`systemctl --user start podman.socket` \
             without root) or name its socket with --container-runtime PATH"
        }
        Choice::Auto => {
            "start one with `systemctl start docker` or `systemctl start podman.socket` \
             (`systemctl --user ...` without root), or name its socket with --container-runtime PATH"
        }
        Choice::Socket(_) => {
            "start the runtime that owns this socket, or choose another with --container-runtime"
        }
    }
}

impl Runtime {
    /// Finds the runtime of this choice and connects to it.
    ///
    /// Looks at `DOCKER_HOST`, `CONTAINER_HOST` and the usual sockets of both runtimes, with and without root.
    ///
    /// # Errors
    /// When none answers: where was looked, and what each said.
    pub async fn connect(choice: &Choice) -> Result<Self, Unreachable> {
        let uid = rustix::process::getuid().as_raw();
        Self::connect_to(choice, candidates(choice, |name| std::env::var_os(name), uid)).await
    }

    async fn connect_to(choice: &Choice, candidates: Vec<Candidate>) -> Result<Self, Unreachable> {
        let answers = join_all(candidates.iter().map(probe)).await;
        let mut tried = Vec::new();
        for (candidate, answer) in candidates.into_iter().zip(answers) {
            let why = match answer {
                Ok(runtime) if fits(choice, runtime.kind()) => return Ok(runtime),
                Ok(runtime) => format!("answers, but is {}", runtime.kind()),
                Err(why) => why,
            };
            tried.push(Tried { name: candidate.name, why });
        }
        Err(Unreachable { choice: choice.clone(), tried })
    }
}

fn fits(choice: &Choice, kind: Kind) -> bool {
    match choice {
        Choice::Auto | Choice::Socket(_) => true,
        Choice::Docker => kind == Kind::Docker,
        Choice::Podman => kind == Kind::Podman,
    }
}

async fn probe(candidate: &Candidate) -> Result<Runtime, String> {
    let path = candidate.socket.as_ref().map_err(|why| (*why).to_owned())?;
    match tokio::time::timeout(PROBE, greet(path)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} s", PROBE.as_secs())),
    }
}

async fn greet(path: &Path) -> Result<Runtime, String> {
    // A plain connect first: its error names what is wrong, where the HTTP client's is only "connect error".
    drop(tokio::net::UnixStream::connect(path).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::ConnectionRefused => "nobody listens".to_owned(),
        _ if is_out_of_descriptors(&error) => OUT_OF_DESCRIPTORS.to_owned(),
        _ => error.to_string(),
    })?);
    let name = path.to_str().ok_or("the path is not UTF-8")?;
    let limits = Limits::default();
    let docker = Docker::connect_with_unix(name, limits.slow.as_secs(), API_DEFAULT_VERSION)
        .map_err(|error| report::chain(&error))?;
    // The client asks for paths without a version, so the server speaks its own newest: nothing to negotiate.
    let version = docker.version().await.map_err(|error| {
        if is_out_of_descriptors(&error) { OUT_OF_DESCRIPTORS.to_owned() } else { report::chain(&error) }
    })?;
    let components = version.components.unwrap_or_default();
    let kind = if components.iter().any(|component| component.name.contains("Podman")) {
        Kind::Podman
    } else {
        Kind::Docker
    };
    Ok(Runtime::new(docker, kind, PathBuf::from(path), limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_descriptors_is_not_told_to_start_a_runtime() {
        let tried = vec![Tried { name: "/s".into(), why: OUT_OF_DESCRIPTORS.into() }];
        let said = Unreachable { choice: Choice::Auto, tried }.to_string();
        assert!(said.contains("ulimit -n") && !said.contains("start"), "{said}");
    }
}
