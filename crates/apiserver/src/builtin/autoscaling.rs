//! HorizontalPodAutoscalers.

mod v1;

use serde_json::{Value, json};

use super::check::{Errors, join};
use super::json::{child, fill, fill_empty, int, is_set, items, made, text};
use super::kind::Kind;
use super::print;
use super::syntax;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short(&["hpa"])
            .in_all()
            .status()
            .columns(print::AUTOSCALER, print::autoscaler)
            .strategy(Autoscaler)
            .build(),
        Kind::new("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short(&["hpa"])
            .in_all()
            .status()
            .stored_in("autoscaling", "v2")
            .columns(print::AUTOSCALER, v1::row)
            .strategy(v1::OldAutoscaler)
            .build(),
    ]
}

struct Autoscaler;

impl Strategy for Autoscaler {
    fn default(&self, autoscaler: &mut Value) {
        let Some(spec) = child(autoscaler, "spec") else {
            return;
        };
        fill(spec, "minReplicas", 1);
        let cpu = json!([{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
        fill_empty(spec, "metrics", cpu);
        let Some(behavior) = child(spec, "behavior") else {
            return;
        };
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        if let Some(up) = made(behavior, "scaleUp") {
            fill(up, "stabilizationWindowSeconds", 0);
            fill(up, "selectPolicy", "Max");
            fill(up, "policies", json!([pods, percent]));
        }
        if let Some(down) = made(behavior, "scaleDown") {
            fill(down, "selectPolicy", "Max");
            fill(down, "policies", json!([percent]));
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let spec = &new["spec"];
        let (min, max) = (int(spec, "minReplicas"), int(spec, "maxReplicas").unwrap_or_default());
        if let Some(min) = min.filter(|&m| m < 1) {
            errors.invalid("spec.minReplicas", min, "must be greater than or equal to 1");
        }
        match max {
            0 => errors.required("spec.maxReplicas", "must be set and greater than 0"),
            ..0 => errors.invalid("spec.maxReplicas", max, "must be greater than or equal to 1"),
            _ => {}
        }
        if min.is_some_and(|min| max < min) {
            errors.invalid("spec.maxReplicas", max, "must be greater than or equal to `minReplicas`");
        }
        target(&spec["scaleTargetRef"], &mut errors);
        for (i, item) in items(spec, "metrics").iter().enumerate() {
            metric(item, &format!("spec.metrics[{i}]"), &mut errors);
        }
        for direction in ["scaleUp", "scaleDown"] {
            if is_set(&spec["behavior"], direction) {
                let path = format!("spec.behavior.{direction}");
                rules(&spec["behavior"][direction], &path, &mut errors);
            }
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn target(target: &Value, errors: &mut Errors) {
    let path = "spec.scaleTargetRef";
    for field in ["kind", "name"] {
        if errors.need(target, path, field) {
            let value = text(target, field);
            errors.complain(&join(path, field), value, syntax::path_segment(value));
        }
    }
}

fn metric(metric: &Value, path: &str, errors: &mut Errors) {
    const SOURCES: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    errors.one_of(metric, path, "type", &SOURCES.map(|(ty, _)| ty), true);
    let Some((_, source)) = SOURCES.into_iter().find(|(ty, _)| *ty == text(metric, "type")) else {
        return;
    };
    if !is_set(metric, source) {
        let detail = "must populate information for the given metric source";
        errors.required(join(path, source), detail);
        return;
    }
    for (_, other) in SOURCES.into_iter().filter(|(_, s)| *s != source && is_set(metric, s)) {
        let detail = "must populate the given metric source only";
        errors.forbidden(join(path, other), detail);
    }
    let at = format!("{path}.{source}");
    let source = &metric[source];
    if is_set(source, "name") || text(metric, "type").ends_with("Resource") {
        if text(source, "name").is_empty() {
            errors.required(join(&at, "name"), "must specify a resource name");
        }
    } else if text(&source["metric"], "name").is_empty() {
        errors.required(join(&at, "metric.name"), "must specify a metric name");
    }
    let types = ["AverageValue", "Utilization", "Value"];
    errors.one_of(&source["target"], &join(&at, "target"), "type", &types, true);
    if let Some(share) = int(&source["target"], "averageUtilization").filter(|&s| s < 1) {
        errors.invalid(join(&at, "target.averageUtilization"), share, "must be greater than 0");
    }
}

fn rules(rules: &Value, path: &str, errors: &mut Errors) {
    errors.not_negative(rules, path, "stabilizationWindowSeconds");
    if let Some(seconds) = int(rules, "stabilizationWindowSeconds").filter(|&s| s > 3600) {
        let detail = "must be less than or equal to 3600";
        errors.invalid(join(path, "stabilizationWindowSeconds"), seconds, detail);
    }
    errors.one_of(rules, path, "selectPolicy", &["Disabled", "Max", "Min"], false);
    if items(rules, "policies").is_empty() {
        errors.required(join(path, "policies"), "must specify at least one Policy");
    }
    for (i, policy) in items(rules, "policies").iter().enumerate() {
        let path = format!("{path}.policies[{i}]");
        errors.one_of(policy, &path, "type", &["Percent", "Pods"], true);
        let value = int(policy, "value").unwrap_or_default();
        if value <= 0 {
            errors.invalid(join(&path, "value"), value, "must be greater than zero");
        }
        let period = int(policy, "periodSeconds").unwrap_or_default();
        if period <= 0 {
            errors.invalid(join(&path, "periodSeconds"), period, "must be greater than zero");
        } else if period > 1800 {
            errors.invalid(join(&path, "periodSeconds"), period, "must be less than or equal to 1800");
        }
    }
}
