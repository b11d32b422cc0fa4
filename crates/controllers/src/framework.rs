//! What every reconciler stands on: watches and caches, the one applier, status and Events, finalizers, leader election.

pub mod apply;
pub mod backoff;
pub mod children;
pub mod error;
pub mod events;
pub mod finalizer;
pub mod health;
pub mod leader;
pub mod metrics;
pub mod report;
pub mod runner;
pub mod status;
