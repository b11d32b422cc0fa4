//! Causeway on a real Kubernetes, installed from `deploy/` the way its users do it.
//!
//! All tests share one cluster and one operator; each has a namespace, a VLAN and a virtual machine of its own.

#![allow(clippy::unwrap_used, clippy::panic)]

mod addresses;
mod cli;
mod crossings;
mod drain;
mod gateway_changes;
mod gateway_load;
mod gateways;
mod hostnames;
mod infra;
mod intercepts;
mod laptop;
mod leases;
mod load;
mod outages;
mod pods;
mod providers;
mod proxies;
mod replicas;
mod servers;
mod site;
mod updates;
mod world;
mod writes;
