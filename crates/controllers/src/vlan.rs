//! The crossing from an isolated VLAN to the pod network.

mod accepted;
mod access;
mod addresses;
pub(crate) mod claims;
pub(crate) mod dhcp;
pub(crate) mod dns;
mod fleet;
pub mod infra;
mod neighbours;
mod network;
mod pod;
pub mod proxy;
mod server;
pub(crate) mod supply;
