//! Container tunnels: the two ends of one on a link. The host's end dials the container's and says what to listen on;
//! the container's end listens there and carries its clients over the link; the host's end connects them to services.
//! A crate of its own because the binary runs both ends and the controllers speak of them, and because it must know
//! nothing of Kubernetes: what it carries is the plan's `ir::tunnel`.

#![warn(missing_docs, unreachable_pub)]

pub mod client;
mod control;
mod counters;
mod driven;
mod gate;
pub mod host;
mod request;

pub use causeway_link::{Authority, Identity, IdentityError};
pub use counters::Counters;

use causeway_link::Role;

/// What the two ends are called in their certificates.
const HOST: &str = "host";
const CONTAINER: &str = "container";

/// A fresh identity for the container's end of a pair.
///
/// # Errors
/// When no key can be made.
pub fn container_identity(authority: &Authority) -> Result<Identity, IdentityError> {
    authority.issue(Role::Listener, CONTAINER)
}

/// A fresh identity for the host's end of a pair.
///
/// # Errors
/// When no key can be made.
pub fn host_identity(authority: &Authority) -> Result<Identity, IdentityError> {
    authority.issue(Role::Dialer, HOST)
}
