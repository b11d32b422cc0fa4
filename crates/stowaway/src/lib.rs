//! Developers' machines and the cluster: the cluster's end for all workstations ([`hub`]) and the developer's end
//! ([`laptop`]), on links. What is meant for a workstation comes to the hub from carriers, by TLS, and goes on over the
//! workstation's link, or by WireGuard, to a port of the laptop; what the laptop wants of the cluster goes the other way, as far as the hub's
//! [`hub::Reach`] allows.
//! A crate of its own because the agent runs one end and the command line the other, and because it must know nothing of
//! Kubernetes: who may come, who may reach what, and what names mean is told to it.

#![warn(missing_docs, unreachable_pub)]

mod datagrams;
mod driven;
mod framed;
mod greeting;
pub mod hub;
mod join;
pub mod laptop;
mod place;
mod refusal;
mod request;
mod server_name;
mod way;
pub mod wireguard;

pub use place::{BadPlace, Place};
pub use server_name::{DOMAIN, Wanted};
pub use way::Way;

/// What a workstation is known by in the cluster, for ever.
pub type Uid = String;

/// What the cluster's end is called in its certificate.
pub const STOWAWAY: &str = "stowaway";

/// What a workstation is called in its certificate.
pub fn workstation_name(uid: &str) -> String {
    format!("{WORKSTATION}{uid}")
}

/// What a carrier is called in its certificate; `uid` is that of the object that it is there for.
pub fn carrier_name(uid: &str) -> String {
    format!("carrier-{uid}")
}

const WORKSTATION: &str = "workstation-";
