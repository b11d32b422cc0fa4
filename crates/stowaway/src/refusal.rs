//! Why an end does not do what it is asked for, in one word that programs understand and a sentence for people. It goes over
//! the link as the reason of a reset.

use std::{fmt, io};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) text: String,
}

/// Its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The asking end may not have it.
    Denied,
    /// Nobody listens there.
    Refused,
    /// Nobody answers there.
    Timeout,
    /// There is no such name.
    UnknownName,
    /// A limit is reached.
    Busy,
    /// Another has taken the asking end's place.
    Replaced,
    /// There is no connection to the cluster.
    NotConnected,
    /// The wish makes no sense.
    BadRequest,
    /// Anything else.
    Failed,
}

impl Cause {
    const ALL: [Self; 9] = [
        Self::Denied,
        Self::Refused,
        Self::Timeout,
        Self::UnknownName,
        Self::Busy,
        Self::Replaced,
        Self::NotConnected,
        Self::BadRequest,
        Self::Failed,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::UnknownName => "unknown-name",
            Self::Busy => "busy",
            Self::Replaced => "replaced",
            Self::NotConnected => "not-connected",
            Self::BadRequest => "bad-request",
            Self::Failed => "failed",
        }
    }

    fn kind(self) -> io::ErrorKind {
        match self {
            Self::Denied => io::ErrorKind::PermissionDenied,
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::Timeout => io::ErrorKind::TimedOut,
            Self::UnknownName => io::ErrorKind::NotFound,
            Self::Busy => io::ErrorKind::QuotaExceeded,
            Self::Replaced => io::ErrorKind::AddrInUse,
            Self::NotConnected => io::ErrorKind::NotConnected,
            Self::BadRequest => io::ErrorKind::InvalidInput,
            Self::Failed => io::ErrorKind::Other,
        }
    }
}

impl Refusal {
    pub(crate) fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }

    /// The refusal that an error came from, or would be.
    pub(crate) fn of_error(error: &io::Error) -> Self {
        let cause = Cause::ALL.into_iter().find(|cause| cause.kind() == error.kind());
        Self::new(cause.unwrap_or(Cause::Failed), error.to_string())
    }

    /// What an error of the kernel, met on the way to `place`, means to the asking end.
    pub(crate) fn of(place: impl fmt::Display, error: &io::Error) -> Self {
        let cause = match error.kind() {
            io::ErrorKind::ConnectionRefused => Cause::Refused,
            io::ErrorKind::TimedOut => Cause::Timeout,
            _ => Cause::Failed,
        };
        Self::new(cause, format!("{place}: {error}"))
    }

    /// Reads what the other end said.
    pub(crate) fn parse(reason: &str) -> Self {
        let known = reason.split_once(": ").and_then(|(word, text)| {
            let cause = Cause::ALL.into_iter().find(|cause| cause.word() == word)?;
            Some(Self::new(cause, text))
        });
        known.unwrap_or_else(|| Self::new(Cause::Failed, reason))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause.word(), self.text)
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.cause.kind(), refusal.text)
    }
}

/// The error of a stream that the other end broke off, as its refusal if it is one.
pub(crate) fn understood(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::ConnectionReset && error.get_ref().is_some() {
        return Refusal::parse(&error.to_string()).into();
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_arrives_as_it_was_meant() {
        for cause in Cause::ALL {
            let refusal = Refusal::new(cause, "10.0.0.7:80: no");
            assert_eq!(Refusal::parse(&refusal.to_string()), refusal);
        }
        let denied = Refusal::new(Cause::Denied, "not that");
        assert_eq!(Refusal::of_error(&denied.clone().into()), denied);
        let broken = io::Error::new(io::ErrorKind::ConnectionReset, "denied: not that");
        let error = understood(broken);
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::PermissionDenied, "not that"));
        let other = understood(io::Error::new(io::ErrorKind::ConnectionReset, "the link is gone"));
        assert_eq!(other.to_string(), "the link is gone");
        assert_eq!(understood(io::ErrorKind::ConnectionReset.into()).kind(), io::ErrorKind::ConnectionReset);
    }
}
