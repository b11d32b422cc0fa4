//! The engine: accepts, looks at the first bytes, matches, connects and copies. It is a crate of its own so
//! that the data path can never depend on Kubernetes.

pub mod client_hello;
pub mod proxy_protocol;
