//! What follows from a world: which carriers there should be, what they run, and what becomes of each request.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::InterceptState;
use causeway_api::conditions::Reason;
use causeway_ir::Plan;
use k8s_openapi::api::core::v1::{Container, ServicePort};
use k8s_openapi::api::networking::v1::NetworkPolicySpec;
use k8s_openapi::jiff::Timestamp;

use super::layout::Layout;
use super::names::Delivery;
use super::target::TargetRef;
use crate::gateway::kinds::ObjectRef;
use crate::services::ServiceRef;

/// What all requests mean together.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// What becomes of each request.
    pub requests: BTreeMap<ObjectRef, Verdict>,
    /// Services that should have a carrier in front of them.
    pub fronts: BTreeMap<ServiceRef, Front>,
    /// Containers that should be replaced by a carrier, by namespace and target.
    pub swaps: BTreeMap<(String, TargetRef), Swap>,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is carried out.
    Accepted(Box<Accepted>),
    /// It is not.
    Refused(Refused),
    /// It is not known yet; what is there stays.
    Pending(String),
    /// It is deleted, or its time is over.
    Ending,
}

/// A request that is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Whose traffic it takes.
    pub target: TargetRef,
    /// The target's uid.
    pub target_uid: String,
    /// The Services whose traffic it takes; none in mode Container.
    pub services: Vec<String>,
    /// The container that has the port, if one is known to.
    pub container: Option<String>,
    /// What is not caught, in words.
    pub missed: Vec<String>,
    /// The machine that gets the traffic.
    pub workstation: ObjectRef,
    /// Its uid.
    pub workstation_uid: String,
    /// Whose machine that is.
    pub owner: Option<String>,
    /// What is taken, in words.
    pub takes: String,
    /// The container is not replaced while the machine is away.
    pub is_held: bool,
    /// When that will be so of one that is replaced, unless the machine comes back.
    pub held_from: Option<Timestamp>,
}

/// A request that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
    /// Where that leaves it.
    pub state: InterceptState,
}

impl Refused {
    /// One that somebody has to mend.
    pub fn new(reason: Reason, message: String) -> Self {
        Self { reason, message, state: InterceptState::Error }
    }
}

/// A Service with a carrier in front of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Front {
    /// The Service's uid.
    pub uid: String,
    /// What it selects when nobody stands in front of it.
    pub selector: BTreeMap<String, String>,
    /// Its ports, for a Service that finds the original pods.
    pub service_ports: Vec<ServicePort>,
    /// Whether its clients want to know pods that are not ready.
    pub publish_not_ready: bool,
    /// The ports of the carrier.
    pub layout: Layout,
    /// What the carrier runs.
    pub plan: Plan,
    /// What it is granted.
    pub deliveries: BTreeSet<Delivery>,
    /// The requests that it carries out, by uid.
    pub serves: BTreeMap<String, ObjectRef>,
    /// Who may reach what, by the names of policies.
    pub policies: BTreeMap<String, NetworkPolicySpec>,
    /// Whether it is known which pods are the original ones, be it none: whoever keeps endpoints has looked for them. Until then the
    /// plan leads to nobody, and is not to be run.
    pub knows_originals: bool,
}

/// A container that is replaced by a carrier.
#[derive(Debug, Clone, PartialEq)]
pub struct Swap {
    /// The target's uid.
    pub uid: String,
    /// The container as it is without us.
    pub original: Container,
    /// The account of the target's pods.
    pub account: String,
    /// The ports of the carrier.
    pub layout: Layout,
    /// What the carrier runs.
    pub plan: Plan,
    /// What it is granted.
    pub deliveries: BTreeSet<Delivery>,
    /// The requests that it carries out, by uid.
    pub serves: BTreeMap<String, ObjectRef>,
}
