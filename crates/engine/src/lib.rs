//! The engine: accepts, looks at the first bytes, matches, connects and copies. It is a crate of its own so
//! that the data path can never depend on Kubernetes.

#![warn(unreachable_pub)]

mod access_log;
pub mod admin;
mod balance;
mod clock;
mod close_reason;
mod cluster;
mod connections;
mod director;
mod engine;
pub mod handover;
mod health;
mod http;
mod limits;
mod listen;
mod listener;
mod memory;
mod metrics;
mod permit;
mod record;
pub mod spans;
mod status;
mod table;
mod tcp;
mod tls;
mod udp;
mod worker;
mod workspace;

pub use access_log::AccessLog;
pub use close_reason::CloseReason;
pub use director::problems;
pub use engine::{Engine, Error, Handle, Options};
pub use http::front;
pub use listen::{SharePorts, Transport};
pub use status::{
    ClusterStatus, ConnectionStatus, EndpointStatus, ListenerStatus, MissingCertificate, Part, Status,
};
pub use tcp::{client_hello, proxy_protocol};
pub use tls::{Authorities, AuthoritiesError, Certificate, Certificates, Error as CertificateError};
