//! The local node: runs on this machine the workloads that the API asks for.
//! A crate of its own (a fence): it knows the API only through a `kube::Client`, and neither the controllers nor the API server.
//!
//! ```text
//! Deployment ─► ReplicaSet ─► Pod ─► worker ─► shim ─► process        Service + Pods ─► EndpointSlice
//!            StatefulSet ─┘
//!          workload/            pod/          process/   shim             endpoints
//!
//! Service + EndpointSlice ─► plan        services
//! ```
//!
//! # What a process is spared, compared with a container
//!
//! - It shares the host's file system. Its mounts are links below `CAUSEWAY_ROOT`, and an argument (or the part of it
//!   after `=`), an exec probe's or hook's argument and `workingDir` that begin with a mountPath are rewritten to the
//!   volume. A mount inside another mount is reached by rewriting only.
//! - Its ServiceAccount token, CA and namespace are in `CAUSEWAY_SERVICEACCOUNT_DIR`, and `KUBECONFIG` names a file
//!   that uses them; `KUBERNETES_SERVICE_HOST` and `_PORT` are set as in a cluster.
//! - It shares the host's network, with an address of its own on loopback: a program should listen on it (`status.podIP`
//!   by the downward API). One that listens on every address takes its port from all pods. A pod with attachments
//!   (`k8s.v1.cni.cncf.io/networks`) has a network namespace of its own, and `net.*` sysctls of its own.
//! - `securityContext`, resource limits, `readOnly` mounts and `hostPID`-like fields are accepted and not enforced.
//!
//! # Other images
//!
//! Images other than Causeway's own run in Docker or Podman, each container with a shim that makes it, copies its log,
//! hands on signals and removes it at its end.
//!
//! - The pod's address is the container's, on the first network of the annotation `causeway.dev/networks` or on the
//!   runtime's default one. It is not known before the start: `status.podIP` in the environment is 0.0.0.0.
//! - Containers of one pod share the network of the one that was started first; when that one is started again the
//!   others keep the old network until they are.
//! - The API server and Services listen on the host's loopback, which containers do not reach.

#![warn(unreachable_pub)]

mod claims;
mod config;
mod endpoints;
mod events;
mod layout;
pub mod logs;
mod network;
mod node;
mod pod;
mod ports;
mod process;
mod registration;
mod retry;
pub mod services;
pub mod shim;
mod unverified;
mod workload;

pub use config::{CommandPolicy, Config, ImageProgram, OnShutdown, ShimCommand};
/// Networks of this machine: bridges that pods have left, machines for demos, and devices for processes that see a cluster.
pub mod networks {
    pub use crate::network::{
        CARD, Machine, bridge_of, idle_bridges, in_new_network, lead_loopback, remove_idle_bridges,
    };
}

pub use logs::{LogError, LogOptions, LogReader};
pub use node::{Node, NodeError};
pub use pod::{LeftPod, end_pods, left_pods, view};
pub use ports::{PodName, PortDialer, PortError};
pub use unverified::UnverifiedServer;
