//! Causeway's controllers: a small framework (watch, apply, status, Events, leader election), a folder for each crossing
//! and in it one reconciler per kind. A crate of its own so that reconcilers can never reach into a data plane or the
//! embedded API server.

#![warn(missing_docs, unreachable_pub)]

pub mod containers;
pub mod framework;
pub mod gateway;
mod grants;
pub mod hostnames;
pub mod intercepts;
pub mod operator;
mod planned;
mod pod_template;
pub mod vlan;

pub use operator::Operator;
