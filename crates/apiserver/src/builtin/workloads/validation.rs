//! Rules of the workload kinds around their pod template.

use serde_json::Value;

use super::Workload;
use crate::builtin::check::{Errors, join, selects};
use crate::builtin::json::{entries, int, is_set, items, text};
use crate::builtin::pods::validation as pods;
use crate::builtin::syntax;
use crate::error::FieldError;

pub(super) fn validate(kind: Workload, spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        errors.not_negative(spec, "spec", field);
    }
    selector(kind, spec, errors);
    template(kind, spec, errors);
    match kind {
        Workload::Deployment => deployment(spec, errors),
        Workload::StatefulSet => stateful_set(spec, errors),
        Workload::DaemonSet => daemon_set(spec, errors),
        Workload::ReplicaSet => {}
    }
    let Some(old) = old else { return };
    errors.unchanged(spec, old, "spec", "selector");
    if kind == Workload::StatefulSet {
        for field in ["volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            errors.unchanged(spec, old, "spec", field);
        }
    }
}

fn selector(kind: Workload, spec: &Value, errors: &mut Errors) {
    let selector = &spec["selector"];
    if !is_set(spec, "selector") {
        errors.required("spec.selector", "");
        return;
    }
    errors.selector(selector, "spec.selector");
    if entries(selector, "matchLabels").count() + items(selector, "matchExpressions").len() == 0 {
        let noun = format!("{kind:?}").to_lowercase();
        let detail = format!("empty selector is invalid for {noun}");
        errors.invalid("spec.selector", selector.clone(), detail);
    }
}

fn template(kind: Workload, spec: &Value, errors: &mut Errors) {
    let template = &spec["template"];
    if !is_set(spec, "template") {
        errors.required("spec.template", "");
        return;
    }
    let labels = &template["metadata"]["labels"];
    if is_set(spec, "selector") && !selects(&spec["selector"], labels) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid("spec.template.metadata.labels", labels.clone(), detail);
    }
    let claims: Vec<_> =
        items(spec, "volumeClaimTemplates").iter().map(|c| text(&c["metadata"], "name")).collect();
    pods::template(template, "spec.template", &claims, errors);
    let policy = text(&template["spec"], "restartPolicy");
    if matches!(policy, "OnFailure" | "Never") {
        let path = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(path, &policy.into(), &["Always"]));
    }
    if is_set(&template["spec"], "activeDeadlineSeconds") {
        errors.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            format!("activeDeadlineSeconds in {kind:?} is not Supported"),
        );
    }
}

fn deployment(spec: &Value, errors: &mut Errors) {
    let (strategy, path) = (&spec["strategy"], "spec.strategy");
    errors.one_of(strategy, path, "type", &["Recreate", "RollingUpdate"], true);
    let rolling = &strategy["rollingUpdate"];
    if text(strategy, "type") == "Recreate" {
        if !rolling.is_null() {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden("spec.strategy.rollingUpdate", detail);
        }
    } else if rolling.is_object() {
        let path = "spec.strategy.rollingUpdate";
        let unavailable = amount(rolling, path, "maxUnavailable", errors);
        let surge = amount(rolling, path, "maxSurge", errors);
        if unavailable == Some(0) && surge == Some(0) {
            let value = rolling["maxUnavailable"].clone();
            errors.invalid(join(path, "maxUnavailable"), value, "may not be 0 when `maxSurge` is 0");
        }
        not_above_all(rolling, path, "maxUnavailable", errors);
    }
    let (deadline, ready) = (int(spec, "progressDeadlineSeconds"), int(spec, "minReadySeconds"));
    if let Some(deadline) = deadline.filter(|&d| d <= ready.unwrap_or_default()) {
        let detail = "must be greater than minReadySeconds";
        errors.invalid("spec.progressDeadlineSeconds", deadline, detail);
    }
}

fn stateful_set(spec: &Value, errors: &mut Errors) {
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let (strategy, path) = (&spec["updateStrategy"], "spec.updateStrategy");
    match text(strategy, "type") {
        "RollingUpdate" => {
            errors.not_negative(&strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate", "partition");
        }
        "OnDelete" if is_set(strategy, "rollingUpdate") => errors.invalid(
            join(path, "rollingUpdate"),
            strategy["rollingUpdate"].clone(),
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "OnDelete" => {}
        _ => errors.invalid(path, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        errors.complain("spec.serviceName", service, syntax::label(service));
    }
    for field in ["whenDeleted", "whenScaled"] {
        let path = "spec.persistentVolumeClaimRetentionPolicy";
        let policy = &spec["persistentVolumeClaimRetentionPolicy"];
        errors.one_of(policy, path, field, &["Delete", "Retain"], false);
    }
}

fn daemon_set(spec: &Value, errors: &mut Errors) {
    let (strategy, path) = (&spec["updateStrategy"], "spec.updateStrategy.rollingUpdate");
    errors.one_of(strategy, "spec.updateStrategy", "type", &["RollingUpdate", "OnDelete"], true);
    if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    let rolling = &strategy["rollingUpdate"];
    let unavailable = amount(rolling, path, "maxUnavailable", errors);
    let surge = amount(rolling, path, "maxSurge", errors);
    for field in ["maxUnavailable", "maxSurge"] {
        not_above_all(rolling, path, field, errors);
    }
    match (unavailable.unwrap_or_default(), surge.unwrap_or_default()) {
        (0, 0) => errors.required(join(path, "maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        (0, _) | (_, 0) => {}
        _ => {
            let value = rolling["maxSurge"].clone();
            errors.invalid(join(path, "maxSurge"), value, "may not be set when maxUnavailable is non-zero");
        }
    }
}

/// A number of pods, or a share of them; the number in it either way.
fn amount(rolling: &Value, path: &str, key: &str, errors: &mut Errors) -> Option<i64> {
    match &rolling[key] {
        Value::String(share) => {
            errors.complain(&join(path, key), share.clone(), syntax::percent(share));
            share.strip_suffix('%')?.parse().ok()
        }
        other => {
            errors.not_negative(rolling, path, key);
            other.as_i64()
        }
    }
}

fn not_above_all(rolling: &Value, path: &str, key: &str, errors: &mut Errors) {
    let share = rolling[key].as_str().and_then(|s| s.strip_suffix('%')).and_then(|n| n.parse::<i64>().ok());
    if share.is_some_and(|s| s > 100) {
        errors.invalid(join(path, key), rolling[key].clone(), "must not be greater than 100%");
    }
}
