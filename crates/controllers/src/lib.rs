//! Causeway's controllers: a small framework (watch, apply, status, Events, leader election) and one reconciler per
//! kind. A crate of its own so that reconcilers can never reach into a data plane or the embedded API server.

#![warn(missing_docs)]

pub mod apply;
pub mod backoff;
pub mod children;
pub mod container_runtime;
pub mod error;
pub mod events;
pub mod finalizer;
pub mod grants;
pub mod health;
pub mod infra;
pub mod leader;
pub mod leftovers;
pub mod metrics;
pub mod network;
pub mod operator;
pub mod proxy;
pub mod report;
pub mod runner;
pub mod status;
pub mod tunnel;

pub use operator::Operator;
