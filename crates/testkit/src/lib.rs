//! What tests of several crates need: waiting for a condition, an API server in the test's process, real daemons, a
//! real Kubernetes, the real kubectl and Envoy, the program under test, free ports and repeatable chance. A dev-dependency only.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test should panic")]

#[cfg(feature = "api")]
mod cluster;
mod dice;
mod manifests;
mod spawned;
mod wait;

pub mod asking;
pub mod blocking;
pub mod daemon;
pub mod environment;
pub mod envoy;
pub mod fuzz;
pub mod kubectl;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod moto;
pub mod name_server;
pub mod pebble;
pub mod peer;
pub mod port;
pub mod server;

#[cfg(feature = "api")]
pub use cluster::Cluster;
pub use dice::Dice;
pub use manifests::deploy;
pub use spawned::Spawned;
pub use wait::{Answer, PATIENCE, eventually, patience, soon};
