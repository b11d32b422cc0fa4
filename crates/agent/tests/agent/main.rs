//! Agents against a real API server in this process.

#![allow(clippy::unwrap_used, clippy::panic)]

mod clearance;
mod follow;
mod neighbours;
mod paper;
