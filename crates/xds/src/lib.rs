//! Feeds Envoy: a plan becomes listeners, clusters and endpoints, served by aggregated discovery.
//!
//! A crate of its own because the generated Envoy types are heavy; nobody else sees them.

mod board;
mod client_stream;
mod connection;
pub mod resources;
mod server;
mod session;
mod snapshot;
mod wire;

pub use board::{ClientStatus, Handle, Nack, Status};
pub use resources::notes;
pub use server::{Door, Error, Options, Server, Tls};
