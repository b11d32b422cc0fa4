//! The status of policies: an entry for each Gateway whose routes use a Service that the policy is for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::gateway::kinds::{GROUP, ObjectRef, ParentRef};
use crate::gateway::own::Own;
use crate::gateway::picture::Status;
use crate::gateway::policies::Policies;
use crate::gateway::routes::Route;
use crate::gateway::secrets::Lookup;
use crate::gateway::status::{Entries, Stamp, Wanted, fields};
use crate::services::ServiceRef;

/// Entries that a status takes.
pub(super) const MOST: usize = 16;

/// The status of each policy that is used, or was.
pub(in crate::gateway) fn policy_statuses(
    policies: &Policies<'_>,
    owns: &[Own<'_>],
    routes: &[Route<'_>],
    lookup: &Lookup<'_>,
    now: &str,
) -> BTreeMap<ObjectRef, Status> {
    let mut wanted: Vec<Vec<(ParentRef, Vec<Wanted>)>> = policies.all.iter().map(|_| Vec::new()).collect();
    for own in owns {
        let used: BTreeSet<&ServiceRef> = own
            .attached
            .iter()
            .flatten()
            .flat_map(|attached| &routes[attached.route].rules.services)
            .collect();
        let mut said: BTreeMap<usize, Wanted> = BTreeMap::new();
        for service in used {
            for place in policies.for_service(service) {
                let verdict = policies.verdict(*place, service, lookup);
                let kept = said.entry(*place).or_insert_with(|| ("Accepted", verdict.clone()));
                // One that holds anywhere is accepted.
                if verdict.holds && !kept.1.holds {
                    kept.1 = verdict;
                }
            }
        }
        let at = &own.gateway.meta.at;
        let reference = ParentRef {
            group: Some(GROUP.to_owned()),
            kind: Some("Gateway".to_owned()),
            namespace: Some(at.namespace.clone()),
            name: at.name.clone(),
            ..ParentRef::default()
        };
        for (place, accepted) in said {
            let resolved = ("ResolvedRefs", policies.all[place].resolved.clone());
            wanted[place].push((reference.clone(), vec![accepted, resolved]));
        }
    }
    let mut statuses = BTreeMap::new();
    for (policy, wanted) in policies.all.iter().zip(wanted) {
        let object = policy.object;
        let old = &object.status["ancestors"];
        if wanted.is_empty() && !Entries::has_ours(old) {
            continue;
        }
        let entries = Entries {
            old,
            field: "ancestorRef",
            namespace: &object.meta.at.namespace,
            most: MOST,
            ours: &[],
        };
        let stamp = Stamp { generation: object.meta.generation, now };
        let mut status = fields(&object.status);
        status.insert("ancestors".to_owned(), entries.with(&wanted, stamp));
        statuses.insert(object.meta.at.clone(), Status::of(&object.status, Value::Object(status)));
    }
    statuses
}
