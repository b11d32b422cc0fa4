//! The status of listeners, those of a Gateway and those of its sets, and of the sets themselves.

use serde_json::{Value, json};

use super::gateway::Standing;
use crate::gateway::kinds::GROUP;
use crate::gateway::listeners::Bound;
use crate::gateway::own::Own;
use crate::gateway::picture::Status;
use crate::gateway::status::{Stamp, Wanted, conditions, fields};
use crate::references::Verdict;

/// Said only where it is so.
const OVERLAPPING: &str = "OverlappingTLSConfig";
const AGEING: &str = "causeway.dev/CertificateAgeing";

/// The listeners of a Gateway or of one of its sets.
pub(super) fn statuses(
    own: &Own<'_>,
    set: Option<usize>,
    old: &Value,
    programmed: &Verdict,
    stamp: Stamp<'_>,
) -> Value {
    let old = old.as_array().map(Vec::as_slice).unwrap_or_default();
    let of_object = own.listeners.iter().enumerate().filter(|(_, listener)| listener.set == set);
    let made = of_object.map(|(place, listener)| {
        let name = &listener.spec.name;
        let before = old.iter().find(|entry| entry["name"] == name.as_str()).unwrap_or(&Value::Null);
        let kinds: Vec<Value> =
            listener.kinds.iter().map(|kind| json!({ "group": GROUP, "kind": kind.as_str() })).collect();
        let mut said: Vec<Wanted> = vec![
            ("Accepted", listener.accepted.clone()),
            ("Conflicted", listener.conflicted.clone()),
            ("ResolvedRefs", listener.resolved.clone()),
            ("Programmed", listener_programmed(listener, programmed)),
        ];
        said.extend(listener.overlaps.map(|other| {
            let message = format!(
                "listener {} has some of these hosts, too: who asks for one on a connection to the other gets a 421",
                own.listeners[other].label
            );
            (OVERLAPPING, Verdict::yes("OverlappingHostnames", message))
        }));
        said.extend(listener.ageing.clone().map(|ageing| (AGEING, ageing)));
        json!({
            "name": name,
            "supportedKinds": kinds,
            "attachedRoutes": own.count(place),
            "conditions": conditions(&before["conditions"], &said, &[OVERLAPPING, AGEING], stamp),
        })
    });
    made.collect()
}

fn listener_programmed(listener: &Bound<'_>, gateway: &Verdict) -> Verdict {
    if listener.conflicted.holds {
        return Verdict::no(listener.conflicted.reason, &listener.conflicted.message);
    }
    if !listener.accepted.holds {
        return Verdict::no("Invalid", &listener.accepted.message);
    }
    if !listener.serves() {
        return Verdict::no("Invalid", &listener.resolved.message);
    }
    if !gateway.holds {
        return Verdict::no("Pending", &gateway.message);
    }
    Verdict::yes("Programmed", "clients are served")
}

/// Whether a set adds anything to a Gateway.
pub(super) fn set_is_accepted(own: &Own<'_>, set: usize, standing: &Standing) -> Verdict {
    let allowed = &own.sets[set].allowed;
    if !allowed.holds {
        return allowed.clone();
    }
    if !standing.accepted.holds {
        let message =
            format!("Gateway {} is not accepted: {}", own.gateway.meta.at, standing.accepted.message);
        return Verdict::no("ParentNotAccepted", message);
    }
    // A certificate that is missing may still be made; one that may not be used is a fault of the set.
    let is_good =
        |listener: &&Bound<'_>| listener.accepted.holds && listener.resolved.reason != "RefNotPermitted";
    let listeners = own.listeners.iter().filter(|listener| listener.set == Some(set));
    let count = own.sets[set].object.spec.listeners.len();
    match listeners.filter(is_good).count() {
        0 => Verdict::no("ListenersNotValid", "no listener is good: their conditions say why"),
        good if good < count => {
            Verdict::yes("ListenersNotValid", "some listeners are not good: their conditions say why")
        }
        _ => allowed.clone(),
    }
}

/// The status of a set.
pub(in crate::gateway) fn set_status(own: &Own<'_>, set: usize, standing: &Standing, now: &str) -> Status {
    let object = own.sets[set].object;
    let stamp = Stamp { generation: object.meta.generation, now };
    let accepted = set_is_accepted(own, set, standing);
    let programmed = if !accepted.holds {
        accepted.clone()
    } else if standing.programmed.holds {
        Verdict::yes("Programmed", "clients are served")
    } else {
        Verdict::no("Pending", &standing.programmed.message)
    };
    let said = [("Accepted", accepted), ("Programmed", programmed)];
    let mut status = fields(&object.status);
    status.insert("conditions".to_owned(), conditions(&object.status["conditions"], &said, &[], stamp));
    let listeners = statuses(own, Some(set), &object.status["listeners"], &standing.programmed, stamp);
    // A set that may add nothing has no listeners.
    if listeners.as_array().is_some_and(Vec::is_empty) {
        status.remove("listeners");
    } else {
        status.insert("listeners".to_owned(), listeners);
    }
    Status::of(&object.status, Value::Object(status))
}
