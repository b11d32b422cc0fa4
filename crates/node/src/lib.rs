//! The local node: runs on this machine the workloads that the API asks for.
//! A crate of its own (a fence): it knows the API only through a `kube::Client`, and neither the controllers nor the API server.
//!
//! ```text
//! Deployment ─► ReplicaSet ─► Pod ─► worker ─► shim ─► process        Service + Pods ─► EndpointSlice
//!          workload/            pod/          process/   shim             endpoints
//! ```

mod config;
mod endpoints;
mod events;
mod layout;
pub mod logs;
mod node;
mod pod;
mod process;
mod registration;
mod retry;
pub mod shim;
mod workload;

pub use config::{CommandPolicy, Config, OnShutdown, ShimCommand};
pub use logs::{LogError, LogOptions, LogReader};
pub use node::{Node, NodeError};
