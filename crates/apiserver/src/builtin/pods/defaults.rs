//! What a pod's spec means where it is silent. Workload templates share all but the last step.

use serde_json::{Value, json};

use crate::builtin::json::{child, fill, fill_empty, flag, items_mut, made, text};
use crate::builtin::quantity;

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const FILE_MODE: i64 = 0o644;

/// Defaults of a pod template: its `spec` and everything inside.
pub(crate) fn template(template: &mut Value) {
    made(template, "metadata");
    if let Some(spec) = child(template, "spec") {
        pod_spec(spec);
    }
}

/// Defaults that templates and pods have in common.
pub(crate) fn pod_spec(spec: &mut Value) {
    fill_empty(spec, "dnsPolicy", "ClusterFirst");
    fill_empty(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill_empty(spec, "schedulerName", "default-scheduler");
    let account = [text(spec, "serviceAccountName"), text(spec, "serviceAccount")]
        .into_iter()
        .find(|a| !a.is_empty())
        .map(str::to_owned);
    if let (Some(account), Some(map)) = (account, spec.as_object_mut()) {
        // The second is the deprecated name of the first.
        map.insert("serviceAccountName".to_owned(), account.clone().into());
        map.insert("serviceAccount".to_owned(), account.into());
    }
    items_mut(spec, "volumes").for_each(volume);
    for list in CONTAINER_LISTS {
        items_mut(spec, list).for_each(container);
    }
}

/// Defaults of pods alone.
pub(crate) fn pod(spec: &mut Value) {
    fill(spec, "enableServiceLinks", true);
    let host_network = flag(spec, "hostNetwork");
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
            for port in items_mut(container, "ports").filter(|_| host_network) {
                let number = port["containerPort"].clone();
                fill_empty(port, "hostPort", number);
            }
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].clone();
    let Some(resources) = child(container, "resources").filter(|_| limits.is_object()) else {
        return;
    };
    let Some(requests) = made(resources, "requests") else {
        return;
    };
    for (name, amount) in limits.as_object().into_iter().flatten() {
        fill(requests, name, amount.clone());
    }
}

fn container(container: &mut Value) {
    fill_empty(container, "terminationMessagePath", "/dev/termination-log");
    fill_empty(container, "terminationMessagePolicy", "File");
    let policy = if is_latest(text(container, "image")) { "Always" } else { "IfNotPresent" };
    fill_empty(container, "imagePullPolicy", policy);
    if let Some(resources) = made(container, "resources") {
        for list in ["limits", "requests"] {
            child(resources, list).into_iter().for_each(quantity::canonicalize);
        }
    }
    for port in items_mut(container, "ports") {
        fill_empty(port, "protocol", "TCP");
    }
    for env in items_mut(container, "env") {
        if let Some(source) = child(env, "valueFrom") {
            field_ref(source);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = child(container, name) {
            fill_empty(probe, "timeoutSeconds", 1);
            fill_empty(probe, "periodSeconds", 10);
            fill_empty(probe, "successThreshold", 1);
            fill_empty(probe, "failureThreshold", 3);
            handler(probe);
        }
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            child(lifecycle, hook).into_iter().for_each(handler);
        }
    }
}

fn handler(handler: &mut Value) {
    if let Some(http) = child(handler, "httpGet") {
        fill_empty(http, "path", "/");
        fill_empty(http, "scheme", "HTTP");
    }
    if let Some(grpc) = child(handler, "grpc") {
        fill(grpc, "service", "");
    }
}

fn field_ref(source: &mut Value) {
    if let Some(reference) = child(source, "fieldRef") {
        fill_empty(reference, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|v| v.iter().all(|(k, v)| k == "name" || v.is_null())) {
        fill(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = child(volume, source) {
            fill(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(path) = child(volume, "hostPath") {
        fill(path, "type", "");
    }
    if let Some(source) = child(volume, "downwardAPI") {
        items_mut(source, "items").for_each(field_ref);
    }
    if let Some(claim) = child(volume, "ephemeral")
        .and_then(|e| child(e, "volumeClaimTemplate"))
        .and_then(|t| child(t, "spec"))
    {
        fill(claim, "volumeMode", "Filesystem");
    }
    if let Some(projected) = child(volume, "projected") {
        for source in items_mut(projected, "sources") {
            if let Some(token) = child(source, "serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(fields) = child(source, "downwardAPI") {
                items_mut(fields, "items").for_each(field_ref);
            }
        }
    }
}

/// An image without a tag means `latest`, unless a digest pins it.
fn is_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once('@') {
        Some((name, _)) => name.ends_with(":latest"),
        None => last.split_once(':').is_none_or(|(_, tag)| tag == "latest"),
    }
}

/// The quality of service that a pod's requests and limits give it.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    use crate::builtin::json::items;
    let (mut any, mut guaranteed) = (false, true);
    for container in ["containers", "initContainers"].into_iter().flat_map(|l| items(spec, l)) {
        for resource in ["cpu", "memory"] {
            let amount =
                |list: &str| quantity::of(&container["resources"][list][resource]).filter(|q| !q.is_zero());
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|r| Some(r) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
