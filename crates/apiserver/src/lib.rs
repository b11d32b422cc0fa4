//! An embedded Kubernetes API server for one machine: objects, watches, patches, access control, custom resources,
//! kept on disk. A crate of its own so that the store and the schema engine stay away from everyone else.

#![warn(unreachable_pub)]

mod accept;
mod access;
mod admission;
mod bootstrap;
mod builtin;
mod catalog;
mod cel;
mod cluster_ip;
mod crd;
mod discovery;
mod error;
mod jsonpath;
mod kubeconfig;
mod lifecycle;
mod metrics;
mod node_port;
mod object;
mod openapi;
mod patch;
mod pki;
mod port_forward;
mod request;
mod resource;
mod rest;
mod schema;
mod selector;
mod serve;
mod server;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use access::User;
pub use error::{ApiError, Reason};
pub use port_forward::{PodPorts, PodTarget};
pub use rest::logs::{LogOptions, ObjectLogs};
pub use rest::pods::{PodLogOptions, PodLogs};
pub use server::{Server, StartError, Storage};
