//! `causeway proxy` the way its users meet it: kubectl changes the object, TLS clients go through the proxy.
//!
//! Every test has a control plane, a namespace and loopback addresses of its own. kubectl must be on PATH.

#![allow(clippy::unwrap_used, clippy::panic)]

mod doctor;
mod envoy;
mod faults;
mod health;
mod live;
mod peer;
mod routes;
mod world;
