//! The pod that follows its object: watch, translate, run, report. Generic over the kind ([`Followed`]) and over what runs
//! the plans ([`Runner`]); a crate of its own so that a data plane's pod never needs a controller.
//!
//! Losing the API server changes nothing: what was last known goes on. A spec that can't be run changes nothing either:
//! the last good one stays, its endpoints are still followed, and it is on disk for the next start.

#![warn(missing_docs, unreachable_pub)]

mod agent;
mod feed;
mod followed;
mod follower;
mod health;
mod known;
mod namespaces;
mod proxy;
mod report;
mod runner;
mod saved;
mod version;

pub use agent::{Agent, Config};
pub use followed::{Followed, Needs, State, Surroundings};
pub use proxy::{Proxy, ProxyNotes};
pub use runner::{Runner, Snapshot, changes_of};
