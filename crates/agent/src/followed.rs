//! What an agent has to know of the kind that it follows.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_ir::Problem;
use causeway_translate::services::{ServiceRef, Services};
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

    /// What this pod says of itself: its entry of `status.replicas`.
    fn report(&self, state: &State<Self>, carried: &Snapshot<Self::Plan>) -> serde_json::Value;

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
}

/// What is known of a plan's needs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The Services, their endpoints and the grants for them.
    pub services: Services,
    /// Those of the addresses that this machine has.
    pub here: Vec<IpAddr>,
}

/// What the agent knows of its object and of the plan that it runs for it.
#[derive(Debug)]
pub struct State<F: Followed> {
    /// The generation that was last read.
    pub generation: Option<i64>,
    /// The plan that is to run.
    pub plan: Option<Arc<F::Plan>>,
    /// What is wrong with the newest spec; the plan is that of an earlier one then.
    pub refused: Option<String>,
    /// What else is wrong.
    pub trouble: Option<String>,
    /// What is to be said of the plan's parts.
    pub notes: F::Notes,
}

impl<F: Followed> Clone for State<F> {
    fn clone(&self) -> Self {
        Self {
            generation: self.generation,
            plan: self.plan.clone(),
            refused: self.refused.clone(),
            trouble: self.trouble.clone(),
            notes: self.notes.clone(),
        }
    }
}

impl<F: Followed> Default for State<F> {
    fn default() -> Self {
        Self { generation: None, plan: None, refused: None, trouble: None, notes: F::Notes::default() }
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
            && self.generation == other.generation
            && self.refused == other.refused
            && self.trouble == other.trouble
            && self.notes == other.notes
    }
}
