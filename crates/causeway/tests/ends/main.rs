//! The two ends of tunnels as processes, as the operator runs them: what each says of the other when that hangs, and how
//! little of what a crowd does in one tunnel reaches the others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test should panic")]

mod crowd;
mod hangs;
mod host_end;
mod strangers;
