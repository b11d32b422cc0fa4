//! Links: an authenticated, encrypted pair of ends that carries streams and datagrams from a container network to the
//! host. The host dials, the container listens; everything is mutual TLS 1.3 with an authority per pair.
//! A crate of its own because both ends, the controllers and the binary use it, and because it must know nothing of
//! Kubernetes. Streams share a few long-lived connections, so that opening one costs no handshake.

#![warn(missing_docs)]

pub mod client;
mod control;
mod counters;
mod datagram;
mod driver;
mod frame;
mod gate;
pub mod host;
pub mod identity;
mod mux;
mod outbox;
mod pump;
mod socket;
mod stream;
mod tunnel;

pub use counters::Counters;
pub use identity::{Authority, End, Identity};
pub use tunnel::{Port, Protocol, Tunnel, TunnelId};
