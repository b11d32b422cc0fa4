//! ProxyServers: what is wrong with one, which Services it may use, the plan that it means, and how an Envoy beside it
//! starts.

pub mod bootstrap;
pub mod references;
mod resolve;
pub mod routes;
mod translate;
mod valid;
mod validate;

pub use translate::{BackendState, Bind, Network, RouteState, Translation, cluster_name, translate};
pub use valid::{Backend, Listener, Valid};
pub use validate::{Entry, Finding, HEALTH_PORT, bare_address, check_backends, validate, with_prefix};
