//! An embedded Kubernetes API server for one machine: objects, watches, patches, access control, custom resources,
//! kept on disk. A crate of its own so that the store and the schema engine stay away from everyone else.

mod accept;
pub mod access;
mod admission;
mod bootstrap;
pub mod builtin;
pub mod catalog;
mod cluster_ip;
mod crd;
mod discovery;
pub mod error;
mod jsonpath;
pub mod kubeconfig;
mod lifecycle;
mod metrics;
mod node_port;
mod object;
mod openapi;
mod patch;
pub mod pki;
mod request;
pub mod resource;
pub mod rest;
pub mod schema;
mod selector;
pub mod serve;
pub mod server;
pub mod store;
mod table;
mod wire;
