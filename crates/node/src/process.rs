//! Processes without orphans: who a process is (pid, start time, boot), what is known of it on disk, and how to signal and await it.
//! A container runs under a shim (see [`crate::shim`]); this module is the node's side of it.

pub(crate) mod attempt;
pub(crate) mod durable;
mod instance;

pub(crate) use attempt::{Exit, Launch, RuntimeContainer};
pub(crate) use causeway_containers::Identity;
pub(crate) use instance::Instance;
