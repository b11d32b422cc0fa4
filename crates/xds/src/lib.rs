//! Feeds Envoy: a plan becomes listeners, clusters and endpoints, served by aggregated discovery.
//!
//! A crate of its own because the generated Envoy types are heavy; nobody else sees them.

#![warn(missing_docs, unreachable_pub)]

mod client_stream;
mod clients;
mod connection;
mod resource;
mod resources;
mod server;
mod session;
mod set;
mod snapshot;
mod status;
mod wire;

pub use resources::{notes, problems};
pub use server::{Error, Options, Server, Socket, Tls};
pub use status::{ClientStatus, Handle, Nack, Status};
