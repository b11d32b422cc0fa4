//! What an agent has to know of the kind that it follows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use causeway_api::{SuppliedRoute, Supply};
use causeway_ir::Problem;
use causeway_translate::services::{ServiceRef, Services};
use k8s_openapi::ByteString;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::runner::Snapshot;

/// A kind whose pods follow their object. Nothing in here does IO: the agent reads what is needed and hands it in.
pub trait Followed: Send + Sync + Sized + 'static {
    /// The object.
    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// The object after all its texts were parsed.
    type Checked: Send + Sync + 'static;
    /// What a runner takes.
    type Plan: Debug + PartialEq + Send + Sync + 'static;
    /// What is to be said of a plan's parts in the report.
    type Notes: Clone + Debug + Default + PartialEq + Send + Sync + 'static;

    /// Whether the operator supplies its pods with what other namespaces let it use.
    const IS_SUPPLIED: bool;

    /// Parses an object; asked once for each new one.
    ///
    /// # Errors
    /// Everything that makes it impossible to run.
    fn check(&self, object: &Self::Object) -> Result<Self::Checked, Vec<Problem>>;

    /// What else has to be known for a plan.
    fn needs(&self, object: &Self::Checked) -> Needs;

    /// What the object means at this moment; `running` is the plan that runs, which is known to be fine.
    ///
    /// # Errors
    /// Everything that makes the plan impossible to run.
    fn plan(
        &self,
        object: &Self::Checked,
        surroundings: &Surroundings,
        running: Option<&Self::Plan>,
    ) -> Result<(Self::Plan, Self::Notes), Vec<Problem>>;

    /// Whether the object may be taken into use beside those of others; `running` is the plan that runs. Until then the last
    /// one runs on, and nothing is said of this one.
    fn is_cleared(
        &self,
        _object: &Self::Checked,
        _surroundings: &Surroundings,
        _running: Option<&Self::Plan>,
    ) -> bool {
        true
    }

    /// What this pod says of itself: its entry of `status.replicas`.
    fn report(&self, state: &State<Self>, carried: &Snapshot<Self::Plan>) -> serde_json::Value;

    /// The entry that the object has of this pod.
    fn reported(&self, object: &Self::Object) -> Option<serde_json::Value>;

    /// Whether another pod says that it has this pod's address: one that this pod replaces, and that lets what is open end.
    fn is_shared(&self, _object: &Self::Object) -> bool {
        false
    }

    /// Servers on the isolated network that this pod should reach, each with a port.
    fn neighbours(&self, _surroundings: &Surroundings) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Told of each new version of the object, whether it can be run or not.
    fn observe(&self, _object: &Self::Object) {}
}

/// What a plan depends on besides the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Services whose endpoints are in the plan.
    pub services: BTreeSet<ServiceRef>,
    /// Addresses that are listened on as soon as this machine has them.
    pub addresses: Vec<IpAddr>,
    /// ConfigMaps of the object's namespace whose entries are in the plan.
    pub config_maps: BTreeSet<String>,
    /// Secrets of the object's namespace with what the plan names.
    pub secrets: BTreeSet<String>,
    /// Parts of the plan that the operator supplies, by their digests.
    pub parts: Vec<String>,
}

/// What is known of a plan's needs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The Services, their endpoints and who may use them.
    pub services: Services,
    /// Routes that are attached to the object.
    pub routes: Vec<SuppliedRoute>,
    /// Those of the addresses that this machine has.
    pub here: Vec<IpAddr>,
    /// The interfaces that have those.
    pub interfaces: BTreeMap<IpAddr, String>,
    /// The ConfigMaps that there are, by name.
    pub config_maps: BTreeMap<String, Entries>,
    /// The Secrets that there are, by name.
    pub secrets: BTreeMap<String, Arc<SecretEntries>>,
    /// The parts of the plan that there are, by digest.
    pub parts: BTreeMap<String, Arc<Supply>>,
}

/// The entries of a ConfigMap.
pub type Entries = BTreeMap<String, String>;
/// The entries of a Secret.
pub type SecretEntries = BTreeMap<String, ByteString>;

/// What the agent knows of its object and of the plan that it runs for it.
#[derive(Debug)]
pub struct State<F: Followed> {
    /// The uid of the object whose plan is to run.
    pub uid: Option<String>,
    /// Another object has its name.
    pub is_another: bool,
    /// The generation that was last read.
    pub generation: Option<i64>,
    /// The generation whose plan is to run.
    pub running: Option<i64>,
    /// The plan that is to run.
    pub plan: Option<Arc<F::Plan>>,
    /// What is wrong with the newest spec; the plan is that of an earlier one then.
    pub refused: Option<String>,
    /// What else is wrong.
    pub trouble: Option<String>,
    /// What is to be said of the plan's parts.
    pub notes: F::Notes,
    /// Those of the addresses that this machine has.
    pub here: Vec<IpAddr>,
    /// Those that it does not have.
    pub absent: Vec<IpAddr>,
    /// Another pod has them, too.
    pub is_shared: bool,
    /// Servers on the isolated network that it should reach.
    pub neighbours: Vec<SocketAddr>,
    /// What the object last said of this pod.
    pub reported: Option<serde_json::Value>,
}

impl<F: Followed> Clone for State<F> {
    fn clone(&self) -> Self {
        Self {
            uid: self.uid.clone(),
            is_another: self.is_another,
            generation: self.generation,
            running: self.running,
            plan: self.plan.clone(),
            refused: self.refused.clone(),
            trouble: self.trouble.clone(),
            notes: self.notes.clone(),
            here: self.here.clone(),
            absent: self.absent.clone(),
            neighbours: self.neighbours.clone(),
            is_shared: self.is_shared,
            reported: self.reported.clone(),
        }
    }
}

impl<F: Followed> Default for State<F> {
    fn default() -> Self {
        Self {
            uid: None,
            is_another: false,
            generation: None,
            running: None,
            plan: None,
            refused: None,
            trouble: None,
            notes: F::Notes::default(),
            here: Vec::new(),
            absent: Vec::new(),
            neighbours: Vec::new(),
            is_shared: false,
            reported: None,
        }
    }
}

impl<F: Followed> PartialEq for State<F> {
    fn eq(&self, other: &Self) -> bool {
        let same_plan = match (&self.plan, &other.plan) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (None, None) => true,
            _ => false,
        };
        same_plan
            && self.uid == other.uid
            && self.is_another == other.is_another
            && self.generation == other.generation
            && self.running == other.running
            && self.refused == other.refused
            && self.trouble == other.trouble
            && self.notes == other.notes
            && self.here == other.here
            && self.absent == other.absent
            && self.neighbours == other.neighbours
            && self.is_shared == other.is_shared
            && self.reported == other.reported
    }
}
