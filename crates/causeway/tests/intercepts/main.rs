//! Intercepts on one machine, by what the traffic of a workload sees of them: `causeway up`, real pods, developers' machines that are
//! each a directory of this one, and clients that never stop asking.

#![allow(clippy::unwrap_used, clippy::panic)]

mod containers;
mod lives;
mod load;
mod peer;
mod protocols;
mod rules;
mod safety;
mod speakers;
mod streams;
mod thief;
mod wireguard;
mod world;
