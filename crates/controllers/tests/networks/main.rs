//! ContainerNetworks against the embedded API server and a fake runtime, in one process.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod faults;
mod leftovers;
mod modes;
mod outside;
mod testbed;
