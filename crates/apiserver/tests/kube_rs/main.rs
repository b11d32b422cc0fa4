//! The server as kube-rs sees it, in one process and without sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test should panic")]

mod access;
mod cluster;
mod custom;
mod lifecycle;
mod logs;
mod patches;
mod reads;
mod watches;
mod writes;
