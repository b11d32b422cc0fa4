//! Isolated networks on one machine: `causeway up` as root, pods with network namespaces of their own, virtual machines that
//! are namespaces on the same bridges.

#![allow(clippy::unwrap_used, clippy::panic)]

mod demo;
mod documents;
mod filtered;
mod forward;
mod infra;
mod lan;
mod life;
mod proxies;
mod refused;
mod volumes;
mod world;
