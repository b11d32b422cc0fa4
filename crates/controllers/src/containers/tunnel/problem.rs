//! Why a tunnel proxy, or one of its tunnels, does not get further.

use causeway_api::conditions::Reason;

/// Something that keeps traffic from passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// For programs.
    pub(crate) reason: Reason,
    /// For people.
    pub(crate) message: String,
    /// Whether it stays so until a person changes the spec, an object that it names, or the machine.
    pub(crate) is_permanent: bool,
}

impl Problem {
    /// One that may pass by itself.
    pub(crate) fn transient(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_permanent: false }
    }

    /// One that a person has to see to.
    pub(crate) fn permanent(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_permanent: true }
    }

    /// A step that failed and is tried again.
    pub(crate) fn not_ready(message: impl Into<String>) -> Self {
        Self::transient(Reason::NotReady, message)
    }
}
