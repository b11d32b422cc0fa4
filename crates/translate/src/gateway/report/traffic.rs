//! The status of TrafficPolicies: an entry for each target, and whether all is well in a word. The kind is ours, so every
//! one of them hears something.

use std::collections::BTreeMap;

use serde_json::Value;

use super::policies::MOST;
use crate::gateway::kinds::ObjectRef;
use crate::gateway::picture::Status;
use crate::gateway::status::{Entries, Stamp, Wanted, conditions, fields};
use crate::gateway::traffic::TrafficPolicies;
use crate::references::Verdict;

/// The status of each policy.
pub(in crate::gateway) fn traffic_statuses(
    policies: &TrafficPolicies<'_>,
    now: &str,
) -> BTreeMap<ObjectRef, Status> {
    let mut statuses = BTreeMap::new();
    for policy in &policies.all {
        let object = policy.object;
        let mut wanted = Vec::with_capacity(policy.ends.len());
        for end in &policy.ends {
            let mut said: Vec<Wanted> = vec![("Accepted", end.accepted.clone())];
            said.extend(end.conflicted.clone().map(|conflicted| ("Conflicted", conflicted)));
            wanted.push((end.reference.clone(), said));
        }
        let entries = Entries {
            old: &object.status["ancestors"],
            field: "ancestorRef",
            namespace: &object.meta.at.namespace,
            most: MOST,
            ours: &["Conflicted"],
        };
        let refused = policy.ends.iter().find(|end| !end.accepted.holds).map(|end| end.accepted.clone());
        let all = refused.unwrap_or_else(|| Verdict::yes("Accepted", "every target is treated so"));
        let stamp = Stamp { generation: object.meta.generation, now };
        let old = &object.status["conditions"];
        let mut status = fields(&object.status);
        status.insert("ancestors".to_owned(), entries.with(&wanted, stamp));
        status.insert("conditions".to_owned(), conditions(old, &[("Accepted", all)], &[], stamp));
        status.insert("observedGeneration".to_owned(), object.meta.generation.into());
        statuses.insert(object.meta.at.clone(), Status::of(&object.status, Value::Object(status)));
    }
    statuses
}
