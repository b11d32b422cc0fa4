//! What several crates need and no library has: when to try again, files that survive a crash, what an error says in
//! full, one policy for poisoned locks, what a process may have and how it is shared, and names that two parts agree on
//! without seeing each other.
//! Nothing here knows Kubernetes' client, an async runtime or another crate of this workspace.

#![warn(unreachable_pub)]

pub mod backoff;
pub mod budget;
pub mod capacity;
pub mod file;
pub mod lock;
pub mod memory;
pub mod near;
pub mod random;
pub mod report;
pub mod socket;
pub mod throttle;
pub mod varint;
pub mod well_known;

mod quantity;

pub use backoff::Backoff;
pub use budget::{Budget, Share};
pub use quantity::Quantity;
pub use throttle::Throttle;
