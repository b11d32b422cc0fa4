//! The command line as people and scripts meet it: closed pipes, terminals, JSON, leftovers, and the README itself.

#![allow(clippy::unwrap_used, clippy::panic)]

mod clean;
mod doctor;
mod json;
mod pipes;
mod readme;
mod terminals;
