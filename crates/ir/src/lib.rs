//! The plan: what the data planes execute, as plain data. Every resource compiles to it; the engine, the ends of tunnels,
//! the DNS and DHCP servers and the Envoy back end read it. A crate of its own so that none of them ever sees
//! Kubernetes: no IO in here, only parsing, validation and comparison.
//!
//! What can't be parsed can't be in a plan: addresses, names, limits and durations are types. What only shows in the
//! whole, like a name that nothing has, is found by [`Plan::validate`].
#![warn(missing_docs, unreachable_pub)]

pub mod cluster;
pub mod dhcp;
pub mod diff;
pub mod dns;
pub mod duration;
pub mod endpoint;
pub mod http;
pub mod limits;
pub mod link;
pub mod listener;
mod name;
mod networks;
mod number;
pub mod plan;
pub mod probe_hello;
pub mod route;
pub mod server_name;
mod size;
pub mod tls;
pub mod tunnel;
pub mod validate;

pub use cluster::{
    Cluster, Ejection, HealthCheck, HealthCheckKind, HttpVersion, Keepalive, Policy, ProxyVersion, Transport,
};
pub use diff::{Change, Changes, Keyed, PlanDiff, changes, diff, route_changes};
pub use duration::Period;
pub use endpoint::{Address, Endpoint};
pub use limits::Limits;
pub use link::Link;
pub use listener::{AcceptProxyProtocol, Listener, Protocol};
pub use name::Name;
pub use number::Limit;
pub use plan::{OnRemoval, Plan};
pub use route::{Action, ConnectionRoute, Refusal, Target, Targets, Tls, TlsRoute};
pub use server_name::Pattern;
pub use size::Size;
pub use tls::{CertificateRef, SubjectName, Terminate, Then};
pub use validate::Problem;
