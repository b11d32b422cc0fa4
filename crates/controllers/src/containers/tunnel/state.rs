//! How a tunnel proxy stands, as its worker tells the reconciler. Plain data; equal states say nothing new.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use causeway_ir::tunnel::{LinkState, TunnelId, TunnelState};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// How a tunnel proxy stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// What it is about to do.
    pub(crate) phase: Phase,
    /// What keeps it from getting further; it tries again.
    pub(crate) problem: Option<Problem>,
    /// The container runtime.
    pub(crate) runtime: RuntimeState,
    /// The client's image, once it is there.
    pub(crate) image: Option<String>,
    /// The client's container, while it runs.
    pub(crate) client: Option<ClientState>,
    /// Why nothing passes through that container although it is there, and what to do.
    pub(crate) halted: Option<String>,
    /// The host end, while it runs.
    pub(crate) host: Option<HostState>,
    /// Whether both ends talk to each other.
    pub(crate) link: LinkState,
    /// What the link says of each tunnel, by name.
    pub(crate) tunnels: BTreeMap<String, CarriedTunnel>,
}

/// A client that was only just started does not answer the first attempts, which is nothing to tell anybody.
pub(crate) const QUIET_ATTEMPTS: RangeInclusive<u32> = 1..=5;

impl State {
    /// Whether both ends talk to each other.
    pub(crate) fn is_linked(&self) -> bool {
        self.link == LinkState::Up && self.halted.is_none()
    }
}

/// What a tunnel proxy is about to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It looks for what an operator before this one left running; nothing is known until then.
    #[default]
    Looking,
    /// It waits for its network or for a runtime.
    Waiting,
    /// It sees to the client's image.
    BuildingImage,
    /// It sees to the client's container.
    Starting,
    /// Its container runs, and the host end dials it or talks to it.
    Linked,
    /// It clears up.
    Ending,
    /// Nothing is left of it.
    Gone,
}

/// What is known of the container runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RuntimeState {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// None answers, and why.
    Unavailable(String),
    /// Which one answers.
    Available(String),
}

/// The process of the host end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostState {
    /// Its number.
    pub(crate) pid: i32,
    /// Since when it runs.
    pub(crate) since: Timestamp,
}

/// The client's container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientState {
    /// The runtime's id.
    pub(crate) id: String,
    /// The host's port that leads to its control port.
    pub(crate) control_port: u16,
    /// The host's port that leads to its data port.
    pub(crate) data_port: u16,
    /// Its addresses on the proxy's network.
    pub(crate) addresses: Vec<IpAddr>,
}

/// A tunnel that the link was asked to carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CarriedTunnel {
    /// Its number.
    pub(crate) id: TunnelId,
    /// How it stands.
    pub(crate) state: TunnelState,
}

impl CarriedTunnel {
    /// The container's port, if it has one.
    pub(crate) fn port(&self) -> Option<u16> {
        match self.state {
            TunnelState::Listening { port }
            | TunnelState::Unreachable { port, .. }
            | TunnelState::NoEndpoints { port } => Some(port),
            TunnelState::Pending | TunnelState::Failed { .. } => None,
        }
    }
}
