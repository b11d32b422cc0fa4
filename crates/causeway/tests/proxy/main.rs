//! `causeway proxy` the way its users meet it: kubectl changes the object, TLS clients go through the proxy.
//!
//! Every test has a control plane, a namespace and loopback addresses of its own. kubectl must be on PATH.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../harness"]
mod harness {
    pub mod envoy;
    pub mod eventually;
    pub mod kubectl;
    pub mod server;
}

mod commands;
mod envoy;
mod faults;
mod live;
mod peer;
mod world;
