//! The status the server writes into a CRD: accepted names, stored versions and the two conditions that clients wait
//! for.

use serde_json::{Map, Value, json};

use super::names::conflict_reason;

/// The status that follows from the spec. `conflicts` says which name another CRD holds; the times of conditions that
/// do not change are kept.
pub(crate) fn accepted_status(crd: &Value, conflicts: Option<String>, now: &str) -> Value {
    let old = &crd["status"];
    let mut status = old.as_object().cloned().unwrap_or_default();
    let was_established = condition(old, "Established").is_some_and(|c| c["status"] == "True");
    let (names, accepted, established) = match &conflicts {
        None => (
            crd["spec"]["names"].clone(),
            json!({ "status": "True", "reason": "NoConflicts", "message": "no conflicts found" }),
            json!({ "status": "True", "reason": "InitialNamesAccepted",
                    "message": "the initial names have been accepted" }),
        ),
        Some(message) => (
            old.get("acceptedNames").cloned().unwrap_or_else(|| json!({ "kind": "", "plural": "" })),
            json!({ "status": "False", "reason": conflict_reason(crd, message), "message": message }),
            json!({ "status": "False", "reason": "NotAccepted", "message": "not all names are accepted" }),
        ),
    };
    status.insert("acceptedNames".to_owned(), names);
    status.insert("storedVersions".to_owned(), stored_versions(crd));

    let mut conditions = old["conditions"].as_array().cloned().unwrap_or_default();
    set(&mut conditions, "NamesAccepted", accepted, now);
    // A resource that is served stays served when a later change of its names conflicts.
    if conflicts.is_none() || !was_established {
        set(&mut conditions, "Established", established, now);
    }
    status.insert("conditions".to_owned(), conditions.into());
    status.into()
}

/// Every version that objects may be stored in: those so far and the current one.
fn stored_versions(crd: &Value) -> Value {
    let mut stored = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let current =
        crd["spec"]["versions"].as_array().into_iter().flatten().find(|v| v["storage"] == json!(true));
    if let Some(version) = current
        && !stored.contains(&version["name"])
    {
        stored.push(version["name"].clone());
    }
    stored.into()
}

/// The condition of this type, if the status has one.
pub(super) fn condition<'a>(status: &'a Value, ty: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == ty)
}

fn set(conditions: &mut Vec<Value>, ty: &str, fields: Value, now: &str) {
    let old = conditions.iter_mut().find(|c| c["type"] == ty);
    let same = old.as_ref().filter(|c| c["status"] == fields["status"]);
    let time = same.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
    let mut entry = Map::new();
    entry.insert("type".to_owned(), ty.into());
    entry.insert("lastTransitionTime".to_owned(), time);
    if let Value::Object(fields) = fields {
        entry.extend(fields);
    }
    match old {
        Some(slot) => *slot = entry.into(),
        None => conditions.push(entry.into()),
    }
}
