//! The DNS server: answers by view from zones of its plan, forwards and keeps the rest. A crate of its own so that it can
//! never depend on Kubernetes.
//!
//! A question reads top to bottom in `answer`: parse, find the view, find the name; what neither the plan nor the cache knows
//! goes to `forward`. `udp` and `tcp` carry messages in and out.
//!
//! # For those who run it
//!
//! [`Server::start`] takes a channel of plans ([`causeway_ir::dns::DnsPlan`]) and runs the newest one, within moments and
//! without losing a question. A plan that can't be run is refused and the one before runs on; [`problems`] says beforehand what
//! would be refused. [`Handle`] is what may be given away: [`Handle::status`] tells which plan runs, which was refused and
//! why, where it listens, how many names each view has and which resolvers are well, [`Handle::watch`] when that changes,
//! [`Status::missing`] why it is not ready, [`Handle::registry`] its metrics. Nothing here has to be asked for on the way:
//! without anybody who looks, or sends plans, it answers on.

#![warn(missing_docs, unreachable_pub)]

mod answer;
mod cache;
mod clock;
mod connections;
mod cookie;
mod director;
mod forward;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod limiter;
mod metrics;
mod query_log;
mod quick_hasher;
mod relay;
mod resolv_conf;
mod seats;
mod server;
mod socket;
mod status;
mod table;
mod tcp;
mod udp;
mod wire;
mod zones;

pub use query_log::QueryLogTarget;
pub use server::{Error, Handle, Options, Server, problems};
pub use status::{ListenerStatus, Status, UpstreamStatus, ViewStatus};
