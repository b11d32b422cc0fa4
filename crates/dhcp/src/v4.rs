//! DHCPv4 (RFC 2131): messages, and what is answered to them.

pub(crate) mod answer;
pub(crate) mod message;
pub(crate) mod reply;
mod told;
