//! Deployments, ReplicaSets, StatefulSets and DaemonSets.

mod validation;

use serde_json::{Value, json};

use super::check::Errors;
use super::json::{child, entries, fill, fill_empty, items_mut, made, text};
use super::kind::Kind;
use super::pods::defaults;
use super::print;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    let kind = |kind: &str, plural: &str, short: &str| {
        Kind::new("apps", "v1", kind, plural).short(&[short]).in_all().status()
    };
    vec![
        kind("Deployment", "deployments", "deploy")
            .scale()
            .columns(print::DEPLOYMENT, print::deployment)
            .strategy(Workload::Deployment)
            .build(),
        kind("ReplicaSet", "replicasets", "rs")
            .scale()
            .selectable(&["status.replicas"])
            .columns(print::REPLICA_SET, print::replica_set)
            .strategy(Workload::ReplicaSet)
            .build(),
        kind("StatefulSet", "statefulsets", "sts")
            .scale()
            .columns(print::STATEFUL_SET, print::stateful_set)
            .strategy(Workload::StatefulSet)
            .build(),
        kind("DaemonSet", "daemonsets", "ds")
            .columns(print::DAEMON_SET, print::daemon_set)
            .strategy(Workload::DaemonSet)
            .build(),
    ]
}

/// The four kinds differ in a few fields; the pod template is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workload {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
}

impl Strategy for Workload {
    fn default(&self, object: &mut Value) {
        let Some(spec) = child(object, "spec") else { return };
        if let Some(template) = child(spec, "template") {
            defaults::template(template);
        }
        if *self != Self::DaemonSet {
            fill(spec, "replicas", 1);
        }
        if *self != Self::ReplicaSet {
            fill(spec, "revisionHistoryLimit", 10);
        }
        match self {
            Self::Deployment => deployment(spec),
            Self::StatefulSet => stateful_set(spec),
            Self::DaemonSet => daemon_set(spec),
            Self::ReplicaSet => {}
        }
    }

    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = |object: &Value| entries(&object["metadata"], "annotations").next().is_some();
        let annotated = new["metadata"]["annotations"] != old["metadata"]["annotations"]
            && (annotations(new) || annotations(old));
        new["spec"] != old["spec"] || (*self == Self::Deployment && annotated)
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        fill(new, "status", self.empty_status());
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        validation::validate(*self, &new["spec"], old.map(|o| &o["spec"]), &mut errors);
        errors.into_vec()
    }
}

impl Workload {
    /// What a status says before a controller has written one.
    fn empty_status(self) -> Value {
        match self {
            Self::Deployment => json!({}),
            Self::ReplicaSet => json!({"replicas": 0}),
            Self::StatefulSet => json!({"replicas": 0, "availableReplicas": 0}),
            Self::DaemonSet => json!({
                "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
            }),
        }
    }
}

fn deployment(spec: &mut Value) {
    fill(spec, "progressDeadlineSeconds", 600);
    let Some(strategy) = made(spec, "strategy") else {
        return;
    };
    fill_empty(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = made(strategy, "rollingUpdate")
    {
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
}

fn stateful_set(spec: &mut Value) {
    fill_empty(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "serviceName", "");
    if let Some(strategy) = made(spec, "updateStrategy") {
        if text(strategy, "type").is_empty() {
            fill_empty(strategy, "type", "RollingUpdate");
            fill(strategy, "rollingUpdate", json!({}));
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = child(strategy, "rollingUpdate")
        {
            fill(rolling, "partition", 0);
        }
    }
    if let Some(retention) = made(spec, "persistentVolumeClaimRetentionPolicy") {
        fill_empty(retention, "whenDeleted", "Retain");
        fill_empty(retention, "whenScaled", "Retain");
    }
    for claim in items_mut(spec, "volumeClaimTemplates") {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        super::storage::claim_defaults(claim);
    }
}

fn daemon_set(spec: &mut Value) {
    let Some(strategy) = made(spec, "updateStrategy") else {
        return;
    };
    fill_empty(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = made(strategy, "rollingUpdate")
    {
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
}

#[cfg(test)]
mod tests;
