//! `TLSRoute` and `TCPRoute` of the Gateway API whose parent is a `ProxyServer`: what one says, where it may attach, what
//! it may use, and which of several has a name. The operator attaches and supplies; a proxy only claims.

mod attach;
mod claims;
mod route;

pub use attach::{Attached, Parent, World, attach};
pub use claims::{Claim, Claims};
pub use route::Route;

pub use crate::references::{BackendRef, ParentRef, Verdict};

/// Who writes our part of a route's status.
pub const CONTROLLER_NAME: &str = "causeway.dev/proxy";

#[cfg(test)]
mod tests;
