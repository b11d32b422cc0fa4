//! The crossing from a container network to the host.

pub(crate) mod leftovers;
pub(crate) mod network;
pub(crate) mod runtime;
pub mod tunnel;
