//! From Causeway's kinds and the Kubernetes objects around them to plans. Pure: a crate of its own so that it can see
//! neither a client nor a runtime, and so that controllers, pods and the local node all read an object the same way.

#![warn(missing_docs, unreachable_pub)]

pub mod dhcp;
pub mod dns;
pub mod endpoints;
pub mod gateway;
pub mod gateway_pod;
pub mod grants;
pub mod holdings;
pub mod hostname;
pub mod intercept;
pub mod naming;
pub mod proxy;
pub mod references;
mod server;
pub mod services;
pub mod stowaway_pod;
