//! Rules of a pod's spec, for pods and for workload templates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::{self, Scope};
use crate::builtin::check::{Errors, join};
use crate::builtin::json::{flag, int, is_set, items, text};
use crate::builtin::metadata;
use crate::builtin::syntax;

/// Checks a pod template: labels, annotations and spec. `extra_volumes` come from elsewhere, such as a
/// StatefulSet's claim templates.
pub(crate) fn template(template: &Value, path: &str, extra_volumes: &[&str], errors: &mut Errors) {
    let meta = join(path, "metadata");
    errors.labels(&template["metadata"], &meta, "labels");
    metadata::annotations(&template["metadata"], &meta, errors);
    pod_spec(&template["spec"], &join(path, "spec"), extra_volumes, errors);
    if !items(&template["spec"], "ephemeralContainers").is_empty() {
        errors.forbidden(
            join(path, "spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

pub(crate) fn pod_spec(spec: &Value, path: &str, extra_volumes: &[&str], errors: &mut Errors) {
    let mut volumes = volumes(spec, path, errors);
    volumes.extend(extra_volumes);
    containers(spec, path, &volumes, errors);
    errors.one_of(spec, path, "restartPolicy", &["Always", "OnFailure", "Never"], true);
    errors.one_of(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        true,
    );
    if text(spec, "dnsPolicy") == "None" && items(&spec["dnsConfig"], "nameservers").is_empty() {
        errors.required(
            join(path, "dnsConfig.nameservers"),
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        );
    }
    errors.labels(spec, path, "nodeSelector");
    for (field, complaints) in [
        ("serviceAccountName", syntax::subdomain as fn(&str) -> syntax::Complaints),
        ("nodeName", syntax::subdomain),
        ("priorityClassName", syntax::subdomain),
        ("hostname", syntax::label),
        ("subdomain", syntax::label),
    ] {
        let value = text(spec, field);
        if !value.is_empty() {
            errors.complain(&join(path, field), value, complaints(value));
        }
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds") {
        let complaints = syntax::between(seconds, 1, i64::from(i32::MAX));
        errors.complain(&join(path, "activeDeadlineSeconds"), seconds, complaints);
    }
    errors.not_negative(spec, path, "terminationGracePeriodSeconds");
    tolerations(spec, path, errors);
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        let path = format!("{path}.readinessGates[{i}].conditionType");
        errors.complain(&path, condition, syntax::qualified_name(condition));
    }
}

fn containers(spec: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    errors.need(spec, path, "containers");
    let mut names = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for (list, init) in [("containers", false), ("initContainers", true)] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let path = format!("{path}.{list}[{i}]");
            let scope = Scope { volumes, init, host_network: flag(spec, "hostNetwork") };
            container::validate(container, &path, &scope, errors);
            let name = text(container, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.duplicate(join(&path, "name"), name);
            }
            // Init containers run one after the other, so only the main ones can collide.
            for (j, port) in items(container, "ports").iter().enumerate().filter(|_| !init) {
                let host_port = int(port, "hostPort").unwrap_or_default();
                let claim = format!("{}/{}/{host_port}", text(port, "protocol"), text(port, "hostIP"));
                if host_port != 0 && !host_ports.insert(claim.clone()) {
                    errors.duplicate(format!("{path}.ports[{j}].hostPort"), claim);
                }
            }
        }
    }
}

fn volumes<'a>(spec: &'a Value, path: &str, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{i}]");
        let name = text(volume, "name");
        if name.is_empty() {
            errors.required(join(&path, "name"), "");
        } else {
            errors.complain(&join(&path, "name"), name, syntax::label(name));
            if !names.insert(name) {
                errors.duplicate(join(&path, "name"), name);
            }
        }
        let sources: Vec<_> = sources(volume).into_iter().filter(|s| *s != "name").collect();
        if sources.is_empty() {
            errors.required(path.clone(), "must specify a volume type");
        }
        for source in sources.iter().skip(1) {
            errors.forbidden(join(&path, source), "may not specify more than 1 volume type");
        }
        volume_source(volume, &path, errors);
    }
    names
}

fn volume_source(volume: &Value, path: &str, errors: &mut Errors) {
    for (source, name) in [("secret", "secretName"), ("configMap", "name")] {
        if !is_set(volume, source) {
            continue;
        }
        let at = join(path, source);
        errors.need(&volume[source], &at, name);
        if let Some(mode) = int(&volume[source], "defaultMode").filter(|m| !(0..=0o777).contains(m)) {
            let detail = "must be a number between 0 and 0777 (octal), both inclusive";
            errors.invalid(join(&at, "defaultMode"), mode, detail);
        }
        for (i, item) in items(&volume[source], "items").iter().enumerate() {
            let at = format!("{at}.items[{i}]");
            errors.need(item, &at, "key");
            relative_path(item, &at, errors);
        }
    }
    if is_set(volume, "hostPath") {
        errors.need(&volume["hostPath"], &join(path, "hostPath"), "path");
    }
    if is_set(volume, "persistentVolumeClaim") {
        errors.need(&volume["persistentVolumeClaim"], &join(path, "persistentVolumeClaim"), "claimName");
    }
    for (i, source) in items(&volume["projected"], "sources").iter().enumerate() {
        let at = format!("{path}.projected.sources[{i}]");
        for source in sources(source).into_iter().skip(1) {
            errors.forbidden(join(&at, source), "may not specify more than 1 volume type");
        }
        if is_set(source, "serviceAccountToken") {
            let (token, at) = (&source["serviceAccountToken"], join(&at, "serviceAccountToken"));
            errors.need(token, &at, "path");
            let seconds = int(token, "expirationSeconds").unwrap_or_default();
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                errors.invalid(join(&at, "expirationSeconds"), seconds, detail);
            }
        }
    }
}

/// The fields that are set, in a fixed order.
fn sources(object: &Value) -> Vec<&str> {
    let set = object.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null());
    let mut names: Vec<_> = set.map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn relative_path(item: &Value, at: &str, errors: &mut Errors) {
    if !errors.need(item, at, "path") {
        return;
    }
    let path = text(item, "path");
    if path.starts_with('/') {
        errors.invalid(join(at, "path"), path, "must be a relative path");
    }
    if path.split('/').any(|part| part == "..") {
        errors.invalid(join(at, "path"), path, "must not contain '..'");
    }
}

fn tolerations(spec: &Value, path: &str, errors: &mut Errors) {
    for (i, toleration) in items(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{i}]");
        let (key, value, operator) =
            (text(toleration, "key"), text(toleration, "value"), text(toleration, "operator"));
        if !key.is_empty() {
            errors.complain(&join(&path, "key"), key, syntax::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(join(&path, "operator"), operator, detail);
        }
        if operator == "Exists" && !value.is_empty() {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.invalid(join(&path, "operator"), toleration.clone(), detail);
        }
        errors.one_of(toleration, &path, "operator", &["Equal", "Exists"], false);
        errors.one_of(toleration, &path, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], false);
        if is_set(toleration, "tolerationSeconds") && text(toleration, "effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(join(&path, "effect"), text(toleration, "effect"), detail);
        }
    }
}
