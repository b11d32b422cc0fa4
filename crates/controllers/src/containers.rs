//! The crossing from a container network to the host.

pub mod leftovers;
pub mod network;
pub mod runtime;
pub mod tunnel;
