//! The node beside an API server in the same process, with real child processes.

mod containers;
mod pods;
mod stateful;
mod workloads;
mod world;
