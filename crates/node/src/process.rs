//! Processes without orphans: who a process is (pid, start time, boot), what is known of it on disk, and how to signal and await it.
//! A container runs under a shim (see [`crate::shim`]); this module is the node's side of it.

pub mod attempt;
pub mod durable;
mod instance;

pub use attempt::{Exit, Guest, Launch};
pub use causeway_containers::Identity;
pub use instance::Instance;
