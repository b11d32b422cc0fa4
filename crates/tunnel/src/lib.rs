//! Container tunnels: the two ends of one on a link. The host end dials the client end and says what to listen on;
//! the client end listens there and carries its clients over the link; the host end connects them to services.
//! A crate of its own because the binary runs both ends and the controllers speak of them, and because it must know
//! nothing of Kubernetes: what it carries is the plan's `ir::tunnel`.

#![warn(missing_docs, unreachable_pub)]

pub mod client;
mod control;
mod driven;
mod gate;
pub mod host;
mod places;
mod request;
mod tally;

pub use causeway_link::{Authority, Identity, IdentityError};

use causeway_link::Role;

/// What the two ends are called in their certificates, those of running pairs too.
const HOST: &str = "host";
const CLIENT: &str = "container";

/// A fresh identity for the client end of a pair.
///
/// # Errors
/// When no key can be made.
pub fn client_identity(authority: &Authority) -> Result<Identity, IdentityError> {
    authority.issue(Role::Listener, CLIENT)
}

/// A fresh identity for the host end of a pair.
///
/// # Errors
/// When no key can be made.
pub fn host_identity(authority: &Authority) -> Result<Identity, IdentityError> {
    authority.issue(Role::Dialer, HOST)
}
