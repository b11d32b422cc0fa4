//! DHCPv6 (RFC 8415) and router advertisements (RFC 4861): messages, and what is answered to them.

pub(crate) mod advertisement;
pub(crate) mod answer;
mod message;
