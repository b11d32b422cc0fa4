//! The crossing from an isolated VLAN to the pod network.

mod accepted;
pub(crate) mod access;
mod addresses;
pub(crate) mod claims;
pub(crate) mod dhcp;
pub(crate) mod dns;
pub(crate) mod fleet;
pub mod infra;
mod neighbours;
mod network;
pub(crate) mod pod;
pub mod proxy;
mod server;
pub(crate) mod supply;
