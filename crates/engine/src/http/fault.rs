//! Why a message is not taken, and what its sender hears.

/// What is wrong with a message. Words are for logs and tests; a client hears the status only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The status that answers a request with this fault.
    pub(crate) status: u16,
    /// What is wrong.
    pub(crate) why: &'static str,
}

impl Fault {
    /// A message that no two readers need to understand alike.
    pub(crate) const fn bad(why: &'static str) -> Self {
        Self { status: 400, why }
    }

    pub(crate) const fn new(status: u16, why: &'static str) -> Self {
        Self { status, why }
    }
}
