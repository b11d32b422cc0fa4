//! Pods: the kind itself, and the defaults and rules of pod specs that workloads share.

mod container;
pub(super) mod defaults;
mod update;
pub(super) mod validation;

use serde_json::{Value, json};

use super::check::Errors;
use super::json::{child, fill_empty, items, text};
use super::kind::Kind;
use super::print;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Pod", "pods")
            .short(&["po"])
            .in_all()
            .status()
            .others(&["binding", "log", "portforward"])
            .selectable(&[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ])
            .columns(print::POD, print::pod)
            .strategy(Pod)
            .build(),
    ]
}

struct Pod;

impl Strategy for Pod {
    fn default(&self, pod: &mut Value) {
        if let Some(spec) = child(pod, "spec") {
            defaults::pod_spec(spec);
            defaults::pod(spec);
        }
        if let Some(status) = child(pod, "status") {
            sync_ips(status);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        validation::pod_spec(&new["spec"], "spec", &[], &mut errors);
        if let Some(old) = old {
            update::validate(&new["spec"], &old["spec"], &mut errors);
        }
        errors.into_vec()
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        if old.is_none() {
            new["status"] = json!({"phase": "Pending", "qosClass": defaults::qos_class(&new["spec"])});
        }
    }
}

/// The single address and the list say the same.
fn sync_ips(status: &mut Value) {
    let first = items(status, "podIPs").first().map(|ip| text(ip, "ip").to_owned()).unwrap_or_default();
    match text(status, "podIP").to_owned() {
        ip if ip.is_empty() && !first.is_empty() => fill_empty(status, "podIP", first),
        ip if !ip.is_empty() && ip != first => status["podIPs"] = json!([{"ip": ip}]),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
