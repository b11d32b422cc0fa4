//! A connected runtime, and the one way in which calls are made: named, bounded in time, errors sorted.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;

use crate::{Error, ErrorKind, Result};

/// Three seconds in all: what lasts longer will not pass.
const SETTLING_TRIES: u32 = 60;
const SETTLING_PAUSE: Duration = Duration::from_millis(50);

/// The runtimes that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Docker,
    Podman,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        })
    }
}

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ordinary calls; 30 s.
    pub call: Duration,
    /// Creating a container; 2 min, since a busy disk may have to lay out a large image.
    pub create: Duration,
    /// Building and pulling; 10 min.
    pub slow: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call: Duration::from_secs(30), create: Duration::from_mins(2), slow: Duration::from_mins(10) }
    }
}

/// What a runtime says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub kind: Kind,
    pub version: String,
    pub api_version: String,
    /// As Rust names it: `x86_64`, `aarch64`.
    pub architecture: String,
    /// `linux`, everywhere but on Windows containers.
    pub os: String,
}

/// A connected runtime; cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) docker: Docker,
    pub(crate) limits: Limits,
    identity: Arc<(Kind, PathBuf)>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.kind(), self.socket().display())
    }
}

impl Runtime {
    pub(crate) fn new(docker: Docker, kind: Kind, socket: PathBuf, limits: Limits) -> Self {
        Self { docker, limits, identity: Arc::new((kind, socket)) }
    }

    /// The same connection with other time limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Which runtime this is.
    pub fn kind(&self) -> Kind {
        self.identity.0
    }

    /// The socket it was found at.
    pub fn socket(&self) -> &Path {
        &self.identity.1
    }

    /// Asks for version and architecture.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn info(&self) -> Result<Info> {
        let version = self.call("ask for the version", self.limits.call, self.docker.version()).await?;
        Ok(Info {
            kind: self.kind(),
            version: version.version.unwrap_or_default(),
            api_version: version.api_version.unwrap_or_default(),
            architecture: rust_architecture(&version.arch.unwrap_or_default()),
            os: version.os.unwrap_or_default(),
        })
    }

    /// True answer or an error: is it there?
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn ping(&self) -> Result<()> {
        self.call("reach the runtime", self.limits.call.min(Duration::from_secs(5)), self.docker.ping())
            .await
            .map(drop)
    }

    pub(crate) async fn call<T>(
        &self,
        what: impl Into<String>,
        limit: Duration,
        call: impl Future<Output = Result<T, bollard::errors::Error>>,
    ) -> Result<T> {
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer.map_err(|error| Error::new(what, error)),
            Err(_) => Err(Error::timeout(what, limit)),
        }
    }
}

/// Asks until the answer is none of those that pass.
pub(crate) async fn settled<T, F: Future<Output = Result<T>>>(
    passes: fn(&Error) -> bool,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    for _ in 0..SETTLING_TRIES {
        match ask().await {
            Err(error) if passes(&error) => tokio::time::sleep(SETTLING_PAUSE).await,
            other => return other,
        }
    }
    ask().await
}

/// Podman has passing states that Docker's API has no word for ("stopped", before its clean-up has run).
pub(crate) fn is_unreadable(error: &Error) -> bool {
    error.kind() == ErrorKind::Other && error.report().contains("unknown variant")
}

/// With Podman a container that is about to be removed fails every look at several that would show it.
pub(crate) fn is_unsettled(error: &Error) -> bool {
    error.kind() == ErrorKind::Broken || is_unreadable(error)
}

/// Runtimes speak Go's names of architectures.
pub(crate) fn rust_architecture(name: &str) -> String {
    match name {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        "386" => "x86",
        "ppc64le" => "powerpc64",
        other => other,
    }
    .to_owned()
}

/// Refuses names that would change the path of a request.
pub(crate) fn plain_name<'a>(what: &str, name: &'a str) -> Result<&'a str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | ':' | '/' | '@');
    if name.is_empty() || !name.chars().all(plain) || name.split('/').any(|part| part == ".." || part == ".")
    {
        return Err(Error::invalid(format!("{what} {name:?}"), "this is not a name that a runtime knows"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        for bad in ["", "a?b", "../volumes", "a/../b", "a b", "a%2e", "a#b"] {
            assert!(plain_name("inspect container", bad).is_err(), "{bad}");
        }
        for good in ["web-1", "localhost/causeway-tunnel:4f", "registry:5000/a/b@sha256:00", "4f2a"] {
            assert!(plain_name("inspect container", good).is_ok(), "{good}");
        }
    }
}
