//! Networks and tunnels of containers against the embedded API server and a fake runtime, in one process. The
//! containers of tunnels run the real client, and host ends are processes of the program that was just built, so the
//! links are real.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod networks;
mod testbed;
mod tunnels;
