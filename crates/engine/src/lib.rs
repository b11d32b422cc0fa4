//! The engine: accepts, looks at the first bytes, matches, connects and copies. It is a crate of its own so
//! that the data path can never depend on Kubernetes.

pub mod access_log;
pub mod admin;
mod balance;
pub mod client_hello;
mod clock;
pub mod close_reason;
mod cluster;
mod connection;
mod connections;
mod copy;
mod engine;
pub mod handover;
mod health;
mod limits;
mod memory;
mod metrics;
pub mod proxy_protocol;
mod sniff;
mod socket;
pub mod status;
mod table;
mod udp;
mod worker;

pub use access_log::AccessLog;
pub use close_reason::CloseReason;
pub use engine::{Engine, Error, Handle, Options};
pub use status::{ClusterStatus, ConnectionStatus, EndpointStatus, ListenerStatus, Status};
