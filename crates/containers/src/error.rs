//! What can go wrong between us and a runtime, sorted into kinds that a caller can act upon.
//! The runtimes tell most of it in prose; the table in [`classify`] is the one place that reads it.

use std::error::Error as StdError;
use std::time::Duration;

use bollard::errors::Error as Bollard;
use causeway_base::report;

/// What is said when it is not the runtime's fault.
pub(crate) const OUT_OF_DESCRIPTORS: &str = "this process has no file descriptors left: raise its limit (`ulimit -n`), or find what holds so many (`ls -l /proc/PID/fd`)";

/// What a caller may want to do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No such container, network or image, or something that the call needs is missing.
    NotFound,
    /// A network of this name exists.
    AlreadyExists,
    /// It cannot go, or change, because something uses it.
    InUse,
    /// A host port that was asked for is taken.
    PortTaken,
    /// A container of this name exists.
    NameTaken,
    /// No address range or address is left, or the one asked for overlaps.
    CouldNotAllocate,
    /// The runtime has it on record and has lost what it is made of: it can be removed by its name, and nothing else.
    Broken,
    /// The runtime does not answer, or went away during the call.
    Unreachable,
    /// The runtime may be well: this process can't open another connection to it.
    OutOfDescriptors,
    /// The runtime understood and said no; asking again changes nothing.
    Refused,
    /// No answer within the limit.
    Timeout,
    /// Anything else, usually a failure inside the runtime.
    Other,
}

/// A call to a runtime that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct Error {
    kind: ErrorKind,
    what: String,
    #[source]
    cause: Cause,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The runtime's own words.
    #[error("{} (status {status})", if message.is_empty() { "no reason given" } else { message })]
    Status { status: u16, message: String },
    /// A build or pull that began and then failed.
    #[error("{message}")]
    Stream { message: String },
    /// A build that failed, with the end of its output.
    #[error("{message}; the last lines of its output:\n{}", tail.join("\n"))]
    Build { message: String, tail: Vec<String> },
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    #[error("{OUT_OF_DESCRIPTORS}")]
    OutOfDescriptors,
    /// Not sent, since it could not be right.
    #[error("{0}")]
    Invalid(String),
    /// The connection, or an answer that cannot be read.
    #[error("{}", report::chain(.0.as_ref()))]
    Transport(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// What a caller may act upon.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Why, in the runtime's words where it gave any.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The whole story on one line, for a condition or a log.
    pub fn report(&self) -> String {
        format!("{self}: {}", self.cause)
    }

    /// True when the same call may succeed later without anyone changing what was asked for.
    pub fn is_transient(&self) -> bool {
        use ErrorKind::{Broken, Other, OutOfDescriptors, Timeout, Unreachable};
        matches!(self.kind, Unreachable | OutOfDescriptors | Timeout | Broken | Other)
    }

    pub(crate) fn new(what: impl Into<String>, error: Bollard) -> Self {
        let cause = match error {
            Bollard::DockerResponseServerError { status_code, message } => {
                Cause::Status { status: status_code, message: message.trim().to_owned() }
            }
            Bollard::DockerStreamError { error } => Cause::Stream { message: error.trim().to_owned() },
            Bollard::RequestTimeoutError => Cause::Timeout(Duration::ZERO),
            other if is_out_of_descriptors(&other) => Cause::OutOfDescriptors,
            other => Cause::Transport(Box::new(other)),
        };
        Self { kind: classify(&cause), what: what.into(), cause }
    }

    pub(crate) fn invalid(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Refused, what: what.into(), cause: Cause::Invalid(why.into()) }
    }

    pub(crate) fn timeout(what: impl Into<String>, limit: Duration) -> Self {
        Self { kind: ErrorKind::Timeout, what: what.into(), cause: Cause::Timeout(limit) }
    }

    pub(crate) fn transport(what: impl Into<String>, error: impl StdError + Send + Sync + 'static) -> Self {
        let cause = Cause::Transport(Box::new(error));
        Self { kind: classify(&cause), what: what.into(), cause }
    }

    /// The same failure, known to be of another kind than the runtime's words say.
    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// A failed build with the end of its output.
    pub(crate) fn with_output(self, tail: Vec<String>) -> Self {
        let message = self.cause.to_string();
        Self { cause: Cause::Build { message, tail }, ..self }
    }
}

/// Words of both runtimes, in lower case, and what they mean. The first that fits counts.
const WORDS: &[(&str, ErrorKind)] = &[
    ("port is already allocated", ErrorKind::PortTaken),
    ("address already in use", ErrorKind::PortTaken),
    ("ports are not available", ErrorKind::PortTaken),
    ("non-overlapping", ErrorKind::CouldNotAllocate),
    ("pool overlaps", ErrorKind::CouldNotAllocate),
    ("is already used on the host or by another config", ErrorKind::CouldNotAllocate),
    ("could not find free subnet", ErrorKind::CouldNotAllocate),
    ("failed to find free subnet", ErrorKind::CouldNotAllocate),
    ("no available ip", ErrorKind::CouldNotAllocate),
    ("no free ip", ErrorKind::CouldNotAllocate),
    ("has active endpoints", ErrorKind::InUse),
    ("network is being used", ErrorKind::InUse),
    ("has associated containers", ErrorKind::InUse),
    ("is using its referenced image", ErrorKind::InUse),
    ("image is in use", ErrorKind::InUse),
    ("already in progress", ErrorKind::InUse),
    ("name is already in use", ErrorKind::NameTaken),
    ("is already in use by", ErrorKind::NameTaken),
    ("already exists", ErrorKind::AlreadyExists),
    ("network name already used", ErrorKind::AlreadyExists),
    // Before those that mean that nothing is there: Podman's store says it of a container that Podman still has.
    ("container not known", ErrorKind::Broken),
    ("no such container", ErrorKind::NotFound),
    ("no such image", ErrorKind::NotFound),
    ("no such network", ErrorKind::NotFound),
    ("no container with name or id", ErrorKind::NotFound),
    ("image not known", ErrorKind::NotFound),
    ("network not found", ErrorKind::NotFound),
];

fn classify(cause: &Cause) -> ErrorKind {
    match cause {
        Cause::Status { status, message } => by_words(message).unwrap_or(match status {
            404 => ErrorKind::NotFound,
            409 => ErrorKind::InUse,
            400..=499 => ErrorKind::Refused,
            _ => ErrorKind::Other,
        }),
        Cause::Stream { message } | Cause::Build { message, .. } => {
            by_words(message).unwrap_or(ErrorKind::Other)
        }
        Cause::Timeout(_) => ErrorKind::Timeout,
        Cause::OutOfDescriptors => ErrorKind::OutOfDescriptors,
        Cause::Invalid(_) => ErrorKind::Refused,
        Cause::Transport(error) => match error.downcast_ref::<Bollard>() {
            Some(
                Bollard::JsonDataError { .. }
                | Bollard::JsonSerdeError { .. }
                | Bollard::StrParseError { .. },
            ) => ErrorKind::Other,
            _ => ErrorKind::Unreachable,
        },
    }
}

/// Whether a connection could not be made for want of descriptors, of this process or of the machine.
pub(crate) fn is_out_of_descriptors(error: &(dyn StdError + 'static)) -> bool {
    let is_it = |error: &std::io::Error| matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
    // It stands for the error in it, and is skipped by the chain.
    if let Some(Bollard::IOError { err }) = error.downcast_ref() {
        return is_it(err);
    }
    let chain = std::iter::successors(Some(error), |error: &&(dyn StdError + 'static)| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).any(is_it)
}

const ENFILE: i32 = rustix::io::Errno::NFILE.raw_os_error();
const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();

fn by_words(message: &str) -> Option<ErrorKind> {
    let message = message.to_ascii_lowercase();
    WORDS.iter().find(|(words, _)| message.contains(words)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status_code: u16, message: &str) -> ErrorKind {
        Error::new("try", Bollard::DockerResponseServerError { status_code, message: message.to_owned() })
            .kind()
    }

    #[test]
    fn sorts_what_docker_says() {
        for (status, message, expected) in [
            (404, "No such container: web", ErrorKind::NotFound),
            (404, "network nope not found", ErrorKind::NotFound),
            (409, "network with name web already exists", ErrorKind::AlreadyExists),
            (
                409,
                r#"Conflict. The container name "/web" is already in use by container "4f". You have to remove (or rename) that container to be able to reuse that name."#,
                ErrorKind::NameTaken,
            ),
            (403, "error while removing network: network web id 4f has active endpoints", ErrorKind::InUse),
            (409, "removal of container 4f is already in progress", ErrorKind::InUse),
            (
                500,
                "driver failed programming external connectivity on endpoint web (4f): Bind for 127.0.0.1:8080 failed: port is already allocated",
                ErrorKind::PortTaken,
            ),
            (
                500,
                "driver failed programming external connectivity on endpoint web (4f): Error starting userland proxy: listen tcp4 127.0.0.1:8080: bind: address already in use",
                ErrorKind::PortTaken,
            ),
            (
                400,
                "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
                ErrorKind::CouldNotAllocate,
            ),
            (403, "Pool overlaps with other one on this address space", ErrorKind::CouldNotAllocate),
            (400, "invalid reference format", ErrorKind::Refused),
            (500, "something broke", ErrorKind::Other),
        ] {
            assert_eq!(kind(status, message), expected, "{status} {message}");
        }
    }

    #[test]
    fn sorts_what_podman_says() {
        for (status, message, expected) in [
            (404, r#"no container with name or ID "web" found: no such container"#, ErrorKind::NotFound),
            (500, r"unable to find network with name or ID nope: network not found", ErrorKind::NotFound),
            (500, "network name web already used: network already exists", ErrorKind::AlreadyExists),
            (
                500,
                r#"creating container storage: the container name "web" is already in use by 4f. You have to remove that container to be able to reuse that name: that name is already in use"#,
                ErrorKind::NameTaken,
            ),
            (
                500,
                r#""web" has associated containers with it. Use -f to forcibly delete containers and pods: network is being used"#,
                ErrorKind::InUse,
            ),
            (
                500,
                "cannot listen on the TCP port: listen tcp4 127.0.0.1:8080: bind: address already in use",
                ErrorKind::PortTaken,
            ),
            (500, "getting container from store \"4f\": container not known", ErrorKind::Broken),
            (
                500,
                "subnet 10.1.0.0/24 is already used on the host or by another config",
                ErrorKind::CouldNotAllocate,
            ),
        ] {
            assert_eq!(kind(status, message), expected, "{status} {message}");
        }
    }

    #[test]
    fn a_process_without_descriptors_does_not_blame_the_runtime() {
        let full = std::io::Error::from_raw_os_error(EMFILE);
        let error = Error::new("reach the runtime", Bollard::IOError { err: full });
        assert_eq!(error.kind(), ErrorKind::OutOfDescriptors);
        assert!(error.report().contains("ulimit -n"), "{}", error.report());
    }

    #[test]
    fn reports_the_whole_story() {
        let error = Error::new(
            "start container web",
            Bollard::DockerResponseServerError { status_code: 500, message: "no\n".into() },
        );
        assert_eq!(error.report(), "cannot start container web: no (status 500)");
        assert_eq!(
            error.to_string(),
            "cannot start container web",
            "the source's text stays with the source"
        );
    }
}
