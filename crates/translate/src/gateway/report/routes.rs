//! The status of a route: what became of each of its references to something of ours, all written at once.

use serde_json::Value;

use crate::gateway::kinds::ParentRef;
use crate::gateway::own::Parent;
use crate::gateway::picture::Status;
use crate::gateway::plan::Built;
use crate::gateway::routes::Route;
use crate::gateway::status::{Entries, Stamp, Wanted, fields};
use crate::references::Verdict;

/// Told to a route that another one is served before, which the specification has no word for.
pub(in crate::gateway) const OVERSHADOWED: &str = "causeway.dev/Overshadowed";
/// Entries that a status takes.
const MOST: usize = 32;

/// The status of a route; none if there is nothing to say and nothing was said.
pub(in crate::gateway) fn route_status(
    route: &Route<'_>,
    parents: &[Parent<'_>],
    built: &[Built],
    place: usize,
    now: &str,
) -> Status {
    let stamp = Stamp { generation: route.meta.generation, now };
    let resolved = route
        .rules
        .wrong
        .clone()
        .unwrap_or_else(|| Verdict::yes("ResolvedRefs", "every backend is there and may be used"));
    let mut wanted: Vec<(ParentRef, Vec<Wanted>)> = Vec::with_capacity(parents.len());
    for parent in parents {
        let mut said: Vec<Wanted> =
            vec![("Accepted", parent.accepted.clone()), ("ResolvedRefs", resolved.clone())];
        if parent.accepted.holds
            && let Some(verdict) = partially_invalid(route)
        {
            said.push(("PartiallyInvalid", verdict));
        }
        let lost = |listener: &usize| built[parent.gateway].lost.get(&(*listener, place));
        if let Some(message) = parent.listeners.iter().find_map(lost) {
            said.push((OVERSHADOWED, Verdict::yes("OtherRouteServes", message)));
        }
        wanted.push((parent.reference.clone(), said));
    }
    let entries = Entries {
        old: &route.status["parents"],
        field: "parentRef",
        namespace: &route.meta.at.namespace,
        most: MOST,
        ours: &["PartiallyInvalid", OVERSHADOWED],
    };
    let mut status = fields(route.status);
    status.insert("parents".to_owned(), entries.with(&wanted, stamp));
    Status::of(route.status, Value::Object(status))
}

fn partially_invalid(route: &Route<'_>) -> Option<Verdict> {
    let invalid = &route.rules.invalid;
    let first = invalid.first()?;
    let each: Vec<String> = invalid.iter().map(|rule| format!("{}: {}", rule.rule, rule.message)).collect();
    Some(Verdict::yes(first.reason, format!("Dropped Rule {}", each.join("; "))))
}
