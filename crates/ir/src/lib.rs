//! The plan: what the data planes execute, as plain data. Every resource compiles to it; the engine and the Envoy
//! back end read it. No IO in here: parsing, validation and comparison only.
#![warn(missing_docs)]

mod changed;
pub mod diff;
mod duration;
pub mod endpoint;
mod name;
mod number;
pub mod tunnel;
pub mod plan;
pub mod probe_hello;
pub mod server_name;
pub mod validate;

pub use changed::changed;
pub use diff::{Changes, PlanDiff, diff};
pub use duration::Period;
pub use name::Name;
pub use number::Limit;
pub use plan::{
    Cluster, Ejection, Endpoint, HealthCheck, HealthCheckKind, Keepalive, Limits, Listener, Outcome, Plan,
    Policy, Protocol, ProxyVersion, Refusal, Route, Sniff,
};
pub use validate::Problem;
