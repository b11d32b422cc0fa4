//! HorizontalPodAutoscalers in `autoscaling/v1`, which `kubectl autoscale` writes: kept as v2 and converted.
//!
//! v1 knows a CPU target only. What v2 has beyond it travels in annotations, so that a v1 client loses nothing.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Autoscaler;
use crate::builtin::json::{child, items, text};
use crate::builtin::print;
use crate::error::FieldError;
use crate::object;
use crate::resource::Strategy;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const TARGET: &str = "targetCPUUtilizationPercentage";
const MEASURED: &str = "currentCPUUtilizationPercentage";

pub(super) struct OldAutoscaler;

impl Strategy for OldAutoscaler {
    fn default(&self, autoscaler: &mut Value) {
        // The target's default is v2's, and v2 is what is kept.
        self.convert_to_storage(autoscaler);
        Autoscaler.default(autoscaler);
        self.convert_from_storage(autoscaler);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        Autoscaler.validate(&as_stored(new), old.map(as_stored).as_ref())
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn convert_from_storage(&self, autoscaler: &mut Value) {
        let mut notes = Vec::new();
        if let Some(spec) = child(autoscaler, "spec").and_then(Value::as_object_mut) {
            let share = split_cpu(spec, "metrics", "target", METRICS, &mut notes);
            put(spec, TARGET, share);
            notes.extend(spec.remove("behavior").map(|behavior| (BEHAVIOR, behavior)));
        }
        if let Some(status) = child(autoscaler, "status").and_then(Value::as_object_mut) {
            let share = split_cpu(status, "currentMetrics", "current", CURRENT, &mut notes);
            put(status, MEASURED, share);
            notes.extend(status.remove("conditions").map(|conditions| (CONDITIONS, conditions)));
        }
        for (name, value) in notes {
            let annotations =
                object::metadata_mut(autoscaler).entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(name.to_owned(), value.to_string().into());
            }
        }
        autoscaler["apiVersion"] = "autoscaling/v1".into();
    }

    fn convert_to_storage(&self, autoscaler: &mut Value) {
        let mut take = |name: &str| -> Option<Value> {
            let annotations = autoscaler["metadata"].get_mut("annotations")?.as_object_mut()?;
            let text = annotations.remove(name)?;
            if annotations.is_empty() {
                autoscaler["metadata"].as_object_mut()?.remove("annotations");
            }
            serde_json::from_str(text.as_str()?).ok()
        };
        let [metrics, behavior, conditions, current] =
            [METRICS, BEHAVIOR, CONDITIONS, CURRENT].map(&mut take);
        if let Some(spec) = child(autoscaler, "spec").and_then(Value::as_object_mut) {
            join_cpu(spec, TARGET, "metrics", "target", metrics);
            put(spec, "behavior", behavior);
        }
        if let Some(status) = child(autoscaler, "status").and_then(Value::as_object_mut) {
            join_cpu(status, MEASURED, "currentMetrics", "current", current);
            put(status, "conditions", conditions);
        }
        autoscaler["apiVersion"] = "autoscaling/v2".into();
    }
}

/// Cells of a v1 object.
pub(super) fn row(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    print::autoscaler(&as_stored(autoscaler), now)
}

fn as_stored(autoscaler: &Value) -> Value {
    let mut stored = autoscaler.clone();
    OldAutoscaler.convert_to_storage(&mut stored);
    stored
}

fn put(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(field.to_owned(), value);
    }
}

/// Takes the list out of `map`: the share of CPU comes back, other metrics become a note.
fn split_cpu(
    map: &mut Map<String, Value>,
    list: &str,
    part: &str,
    note: &'static str,
    notes: &mut Vec<(&'static str, Value)>,
) -> Option<Value> {
    let all = map.remove(list)?;
    let is_cpu = |metric: &Value| {
        text(metric, "type") == "Resource"
            && text(&metric["resource"], "name") == "cpu"
            && metric["resource"][part]["averageUtilization"].is_number()
    };
    let all = all.as_array()?;
    let share = all.iter().find(|m| is_cpu(m)).map(|m| m["resource"][part]["averageUtilization"].clone());
    let others: Vec<Value> = all.iter().filter(|m| !is_cpu(m)).cloned().collect();
    if !others.is_empty() {
        notes.push((note, others.into()));
    }
    share
}

/// The reverse of [`split_cpu`].
fn join_cpu(map: &mut Map<String, Value>, share: &str, list: &str, part: &str, others: Option<Value>) {
    let cpu = map.remove(share).map(|share| {
        let mut figure = json!({ "averageUtilization": share });
        if part == "target" {
            figure["type"] = "Utilization".into();
        }
        json!({"type": "Resource", "resource": {"name": "cpu", part: figure}})
    });
    let others = json!({ "others": others });
    let all: Vec<Value> = items(&others, "others").iter().cloned().chain(cpu).collect();
    if !all.is_empty() {
        map.insert(list.to_owned(), all.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_target_is_a_metric_of_v2() {
        let mut autoscaler = json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 3, TARGET: 70}});
        OldAutoscaler.convert_to_storage(&mut autoscaler);
        assert_eq!(autoscaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
        assert!(autoscaler["spec"].get(TARGET).is_none());
        OldAutoscaler.convert_from_storage(&mut autoscaler);
        assert_eq!(autoscaler["spec"], json!({"maxReplicas": 3, TARGET: 70}));
    }

    #[test]
    fn nothing_of_v2_is_lost_on_the_way_through_v1() {
        let stored = json!({
            "apiVersion": "autoscaling/v2", "metadata": {"name": "web"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Pods", "pods": {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": "3"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            ]},
            "status": {"currentReplicas": 1, "conditions": [{"type": "AbleToScale"}]},
        });
        let mut autoscaler = stored.clone();
        OldAutoscaler.convert_from_storage(&mut autoscaler);
        assert_eq!(autoscaler["spec"], json!({"maxReplicas": 3, TARGET: 50}));
        assert_eq!(as_stored(&autoscaler), stored);
    }

    #[test]
    fn the_default_target_is_that_of_v2() {
        let mut autoscaler = json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 3}});
        OldAutoscaler.default(&mut autoscaler);
        assert_eq!(autoscaler["spec"], json!({"maxReplicas": 3, "minReplicas": 1, TARGET: 80}));
    }
}
