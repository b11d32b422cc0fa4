//! Networks of containers against the embedded API server and a fake runtime, in one process.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod networks;
mod testbed;
