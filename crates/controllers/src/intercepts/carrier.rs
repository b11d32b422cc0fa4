//! Carriers: the pods in front of a Service, or the container in the place of another. What belongs to one belongs to its plan,
//! which belongs to nobody: the requests that it serves come and go, and so may the target.

mod desired;
mod keys;
mod make;
mod standing;

pub(crate) use self::{
    desired::{Subject, dress},
    make::{Maker, Root},
    standing::Standing,
};

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use causeway_ir::Plan;
use causeway_translate::{
    gateway::kinds::ObjectRef,
    intercept::{Front, Swap, TargetRef, front, names::Delivery, swap},
    services::ServiceRef,
};

/// A carrier as a picture has it.
#[derive(Clone, Copy)]
pub(crate) enum Carrier<'a> {
    /// In front of a Service.
    Front(&'a ServiceRef, &'a Front),
    /// In the place of a container.
    Swap(&'a str, &'a TargetRef, &'a Swap),
}

impl<'a> Carrier<'a> {
    pub(crate) fn namespace(&self) -> &'a str {
        match self {
            Self::Front(at, _) => &at.namespace,
            Self::Swap(namespace, _, _) => namespace,
        }
    }

    /// The name of all that belongs to it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Front(at, _) => front::carrier_name(&at.name),
            Self::Swap(_, target, _) => swap::carrier_name(target),
        }
    }

    /// What it stands in front of, or in the place of.
    pub(crate) fn of(&self) -> Of {
        match self {
            Self::Front(at, _) => Of::Service(at.name.clone()),
            Self::Swap(_, target, _) => Of::Target((*target).clone()),
        }
    }

    pub(crate) fn plan(&self) -> &'a Plan {
        match self {
            Self::Front(_, front) => &front.plan,
            Self::Swap(_, _, swap) => &swap.plan,
        }
    }

    pub(crate) fn deliveries(&self) -> &'a BTreeSet<Delivery> {
        match self {
            Self::Front(_, front) => &front.deliveries,
            Self::Swap(_, _, swap) => &swap.deliveries,
        }
    }

    pub(crate) fn serves(&self) -> &'a BTreeMap<String, ObjectRef> {
        match self {
            Self::Front(_, front) => &front.serves,
            Self::Swap(_, _, swap) => &swap.serves,
        }
    }

    /// Whether its plan leads to those who answer what nobody takes.
    pub(crate) fn knows_originals(&self) -> bool {
        match self {
            Self::Front(_, front) => front.knows_originals,
            // In the place of the only one who could.
            Self::Swap(..) => true,
        }
    }

    /// Tells what it is asked for from what it was asked for before; where its pods and those of others are does not matter. The
    /// pods say which one they run.
    pub(crate) fn version(&self) -> i64 {
        let mut asked = self.plan().clone();
        for cluster in &mut asked.clusters {
            cluster.endpoints.clear();
        }
        let mut hasher = DefaultHasher::new();
        self.serves().keys().collect::<Vec<_>>().hash(&mut hasher);
        serde_json::to_string(&asked).unwrap_or_default().hash(&mut hasher);
        // A positive number of an API's integers.
        i64::try_from(hasher.finish() >> 1).unwrap_or_default()
    }
}

/// What a carrier stands in front of, or in the place of; as its plan says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    /// In front of a Service.
    Service(String),
    /// In the place of a container of this target.
    Target(TargetRef),
}

impl Of {
    /// Reads what [`Self::fmt`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        if kind == "service" {
            return Some(Self::Service(name.to_owned()));
        }
        TargetRef::parse(text).map(Self::Target)
    }
}

impl std::fmt::Display for Of {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service(name) => write!(f, "service/{name}"),
            Self::Target(target) => target.fmt(f),
        }
    }
}
