//! The crossing from an isolated VLAN to the pod network.

pub mod infra;
pub mod proxy;
