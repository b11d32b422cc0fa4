//! What every reconciler stands on: watches and caches, the one applier, status and Events, finalizers, leader election.

pub mod apply;
pub mod children;
pub mod error;
pub(crate) mod events;
pub mod finalizer;
pub(crate) mod finding;
pub mod health;
pub(crate) mod kinds;
pub mod leader;
pub mod metrics;
pub(crate) mod overseer;
pub(crate) mod report;
pub mod runner;
pub mod scope;
pub(crate) mod status;
pub(crate) mod wakes;
