//! A whole pair in one process: the client end on ports of its own, the host end dialling it, real services.

#![allow(clippy::panic)]

mod beats;
mod carries;
mod datagrams;
mod heals;
mod keeps_out;
mod pair;
mod road;
mod rogue;
