//! What several crates need and no library has: when to try again, files that survive a crash, what an error says in
//! full, one policy for poisoned locks, and names that two parts agree on without seeing each other.
//! Nothing here knows Kubernetes' client, an async runtime or another crate of this workspace.

#![warn(unreachable_pub)]

pub mod backoff;
pub mod file;
pub mod lock;
pub mod random;
pub mod report;
pub mod varint;
pub mod well_known;

mod quantity;

pub use backoff::Backoff;
pub use quantity::Quantity;
