//! `causeway xds` with the real Envoy: the same plan file that our engine runs.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../harness"]
mod harness {
    pub mod envoy;
    pub mod eventually;
    pub mod kubectl;
    pub mod server;
}

mod backend;
mod control_plane;
mod envoy;
mod http;
mod reload;
mod routing;
mod rubbish;
mod tls;
