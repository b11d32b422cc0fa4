//! A whole pair in one process: the container's end on ports of its own, the host's end dialling it, real services.

#![allow(clippy::panic)]

mod carries;
mod datagrams;
mod heals;
mod keeps_out;
mod pair;
mod rogue;
