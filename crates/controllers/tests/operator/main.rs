//! The operator against the embedded API server, in one process and without sockets.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod applier;
mod cluster;
mod cluster_scoped;
mod gateway;
mod grants;
mod hostnames;
mod infra;
mod intercepts;
mod leader;
mod servers;
mod supply;
