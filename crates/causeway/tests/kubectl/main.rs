//! `causeway up` the way its users meet it: the real kubectl against the built program.
//!
//! All tests share one server, each in a namespace of its own. kubectl must be on PATH.

#![allow(clippy::unwrap_used, clippy::panic)]

mod access;
mod addresses;
mod apply;
mod change;
mod create;
mod delete;
mod describe;
mod discovery;
mod get;
mod infra;
mod logs;
mod objects;
mod peer;
mod policies;
mod port_forward;
mod program;
mod proxy;
mod rollout;
mod schema;
mod services;
mod stateful;
mod tenants;
mod wait;
mod watch;
