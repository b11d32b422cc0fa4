//! The pod that follows its object: watch, translate, run, report. Generic over the kind ([`Followed`]) and over what runs
//! the plans ([`Runner`]); a crate of its own so that a data plane's pod never needs a controller.
//!
//! Losing the API server changes nothing: what was last known goes on. A spec that can't be run changes nothing either:
//! the last good one stays, its endpoints are still followed, and it is on disk for the next start.

#![warn(missing_docs, unreachable_pub)]

mod agent;
mod announce;
mod bounded;
mod dhcp;
mod dns;
mod feed;
mod followed;
mod follower;
mod gateway;
mod health;
mod known;
mod lease_names;
mod links;
mod named;
mod namespaces;
mod neighbours;
mod own_entry;
mod pod_listener;
mod presence;
mod proxy;
mod report;
mod runner;
mod saved;
mod server;
mod standing;
mod stowaway;
mod version;

pub use agent::{Agent, Config, Leave};
pub use bounded::BoundedListener;
pub use dhcp::Dhcp;
pub use dns::{Dns, DnsNotes};
pub use followed::{Entries, Followed, Needs, SecretEntries, State, Surroundings};
pub use gateway::Gateway;
pub use lease_names::{Leased, publish as publish_lease_names};
pub use own_entry::OwnEntry;
pub use pod_listener::listen_on_pod_network;
pub use proxy::{Proxy, ProxyNotes};
pub use runner::{Runner, Snapshot, changes_of};
pub use server::ServerPod;
pub use stowaway::{StowawayConfig, run_stowaway};
