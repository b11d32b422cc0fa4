//! Pods that follow a `GatewayPlan`, those of Gateways and carriers: the parts of their plan, and what they may read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
    sync::Mutex,
};

use causeway_api::{PlanPart, Supply, SupplySpec, names};
use causeway_base::lock::lock;
use causeway_ir::Plan;
use causeway_translate::gateway_pod::parts;
use k8s_openapi::{api::rbac::v1::PolicyRule, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt as _;

use crate::{
    framework::{apply::Wanted, children::Children, kinds::SUPPLY},
    vlan::access::rule,
};

/// The parts of plans that were made last, by who runs them.
pub(crate) struct Split<K>(Mutex<HashMap<K, (Plan, Vec<PlanPart>)>>);

impl<K> Default for Split<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Split<K> {
    /// The parts of a plan; made only when it is another.
    pub(crate) fn parts_of(&self, at: &K, plan: &Plan) -> Vec<PlanPart> {
        let mut known = lock(&self.0);
        if let Some((_, parts)) = known.get(at).filter(|(before, _)| before == plan) {
            return parts.clone();
        }
        let made = parts::split(plan);
        known.insert(at.clone(), (plan.clone(), made.clone()));
        made
    }

    /// Forgets those that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(&K) -> bool) {
        lock(&self.0).retain(|at, _| is_there(at));
    }
}

/// The objects with the parts of the plan of this name. Each once, though the plan may list it twice.
pub(crate) fn supplies(name: &str, parts: &[PlanPart]) -> Vec<Supply> {
    let mut seen = BTreeSet::new();
    let labels = BTreeMap::from([
        (names::LABEL_OWNER_KIND.to_owned(), "GatewayPlan".to_owned()),
        (names::LABEL_OWNER_NAME.to_owned(), name.to_owned()),
    ]);
    let once = parts.iter().filter(|part| seen.insert(&part.digest));
    let supply = |part: &PlanPart| Supply {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{}", part.digest)),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: SupplySpec { plan: Some(part.clone()), ..SupplySpec::default() },
    };
    once.map(supply).collect()
}

/// The parts of a plan that are not there yet. One that is there is the same: it is named by its content.
pub(crate) fn new_parts(namespace: &str, parts: &[Supply], children: &Children) -> Vec<Wanted> {
    let is_there = |name: &str, text: Option<&str>| {
        children.get(SUPPLY, namespace, name).is_some_and(|object| {
            let found = object.data.pointer("/spec/plan/text").and_then(serde_json::Value::as_str);
            object.metadata.deletion_timestamp.is_none() && found == text
        })
    };
    let text = |part: &Supply| part.spec.plan.as_ref().map(|plan| plan.text.clone());
    let new = parts.iter().filter(|part| !is_there(&part.name_any(), text(part).as_deref()));
    new.map(|part| Wanted::new(SUPPLY, part)).collect()
}

/// The plan of this name and its certificates by name, and the parts of plans; nothing else, and nowhere else.
pub(crate) fn rules(name: &str, secrets: &[String]) -> Vec<PolicyRule> {
    let (own, read) = (names::GROUP, ["get", "list", "watch"]);
    let mut rules = vec![
        rule(own, &["gatewayplans"], &read, &[name]),
        rule(own, &["gatewayplans/status"], &["patch"], &[name]),
        rule(own, &["supplies"], &read, &[]),
    ];
    let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
    if !secrets.is_empty() {
        rules.push(rule("", &["secrets"], &read, &secrets));
    }
    rules
}
