//! Connections: accepted, looked at, matched, connected and copied.

mod accept;
pub mod client_hello;
mod connection;
pub(crate) mod copy;
mod downstream;
mod events;
mod opening;
pub mod proxy_protocol;
mod socket;
mod upstream;

pub(crate) use accept::{Listening, serve};
pub(crate) use connection::connect;
pub(crate) use downstream::Downstream;
pub(crate) use socket::{Received, Socket};
pub(crate) use upstream::{Carries, Upstream, is_local};
