//! `causeway xds` with the real Envoy: the same plan file that our engine runs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod backend;
mod control_plane;
mod envoy;
mod http;
mod reload;
mod routing;
mod rubbish;
mod tls;
