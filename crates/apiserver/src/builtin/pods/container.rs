//! Rules of one container: name, image, ports, environment, mounts and probes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::builtin::check::{Errors, join};
use crate::builtin::json::{entries, int, is_set, items, text};
use crate::builtin::quantity::{self, COMPLAINT};
use crate::builtin::syntax;
use crate::error::{FieldError, FieldErrorKind};

/// What the pod around a container offers.
pub(super) struct Scope<'a> {
    pub volumes: &'a BTreeSet<&'a str>,
    pub init: bool,
    pub host_network: bool,
}

pub(super) fn validate(container: &Value, path: &str, scope: &Scope, errors: &mut Errors) {
    if errors.need(container, path, "name") {
        let name = text(container, "name");
        errors.complain(&join(path, "name"), name, syntax::label(name));
    }
    errors.need(container, path, "image");
    errors.one_of(container, path, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], true);
    errors.one_of(container, path, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], true);
    ports(container, path, scope, errors);
    env(container, path, errors);
    mounts(container, path, scope.volumes, errors);
    resources(&container["resources"], &join(path, "resources"), errors);
    probes(container, path, scope, errors);
}

fn ports(container: &Value, path: &str, scope: &Scope, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (i, port) in items(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{i}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let complaints = syntax::port_name(name);
            if complaints.is_empty() && !names.insert(name) {
                errors.duplicate(join(&path, "name"), name);
            }
            errors.complain(&join(&path, "name"), name, complaints);
        }
        let number = int(port, "containerPort").unwrap_or_default();
        match number {
            0 => errors.required(join(&path, "containerPort"), ""),
            _ => errors.complain(&join(&path, "containerPort"), number, syntax::port_number(number)),
        }
        let host_port = int(port, "hostPort").unwrap_or_default();
        if host_port != 0 {
            errors.complain(&join(&path, "hostPort"), host_port, syntax::port_number(host_port));
            if scope.host_network && host_port != number {
                let detail = "must match `hostPort` when `hostNetwork` is true";
                errors.invalid(join(&path, "containerPort"), number, detail);
            }
        }
        errors.one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"], true);
    }
}

fn env(container: &Value, path: &str, errors: &mut Errors) {
    for (i, env) in items(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{i}]");
        if errors.need(env, &path, "name") {
            let name = text(env, "name");
            errors.complain(&join(&path, "name"), name, syntax::env_name(name));
        }
        if is_set(env, "valueFrom") {
            env_source(env, &join(&path, "valueFrom"), errors);
        }
    }
    for (i, source) in items(container, "envFrom").iter().enumerate() {
        let path = format!("{path}.envFrom[{i}]");
        let sources: Vec<_> =
            ["configMapRef", "secretRef"].into_iter().filter(|s| is_set(source, s)).collect();
        match sources.as_slice() {
            [] => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            [one] => _ = errors.need(&source[*one], &join(&path, one), "name"),
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

fn env_source(env: &Value, path: &str, errors: &mut Errors) {
    let source = &env["valueFrom"];
    let kinds: Vec<_> = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"]
        .into_iter()
        .filter(|k| is_set(source, k))
        .collect();
    for &kind in &kinds {
        let (reference, path) = (&source[kind], join(path, kind));
        match kind {
            "fieldRef" => field_ref(reference, &path, errors),
            "resourceFieldRef" => _ = errors.need(reference, &path, "resource"),
            _ => {
                errors.need(reference, &path, "name");
                if errors.need(reference, &path, "key") {
                    let key = text(reference, "key");
                    errors.complain(&join(&path, "key"), key, syntax::config_key(key));
                }
            }
        }
    }
    if kinds.is_empty() {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        errors.invalid(path, "", detail);
    } else if !text(env, "value").is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if kinds.len() > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn field_ref(reference: &Value, path: &str, errors: &mut Errors) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if !errors.need(reference, path, "fieldPath") {
        return;
    }
    let field = text(reference, "fieldPath");
    let subscript = ["metadata.labels['", "metadata.annotations['"]
        .into_iter()
        .any(|p| field.starts_with(p) && field.ends_with("']"));
    if !subscript && !FIELDS.contains(&field) {
        errors.push(FieldError::not_supported(join(path, "fieldPath"), &field.into(), &FIELDS));
    }
}

fn mounts(container: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let mut mounted = BTreeSet::new();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{i}]");
        let name = text(mount, "name");
        errors.need(mount, &path, "name");
        if !volumes.contains(name) {
            let error = FieldError::new(FieldErrorKind::NotFound, join(&path, "name"), "");
            errors.push(error.with_value(&name.into()));
        }
        errors.need(mount, &path, "mountPath");
        let target = text(mount, "mountPath");
        if !mounted.insert(target) {
            errors.invalid(join(&path, "mountPath"), target, "must be unique");
        }
        if text(mount, "subPath").starts_with('/') {
            errors.invalid(join(&path, "subPath"), text(mount, "subPath"), "must be a relative path");
        }
        if text(mount, "subPath").split('/').any(|part| part == "..") {
            errors.invalid(join(&path, "subPath"), text(mount, "subPath"), "must not contain '..'");
        }
    }
}

fn resources(resources: &Value, path: &str, errors: &mut Errors) {
    for list in ["limits", "requests"] {
        for (name, value) in entries(resources, list) {
            let at = format!("{path}.{list}[{name}]");
            match quantity::of(value) {
                None => errors.invalid(at, value.clone(), COMPLAINT),
                Some(amount) if amount.is_negative() => {
                    errors.invalid(at, value.clone(), "must be greater than or equal to 0");
                }
                Some(_) => {}
            }
        }
    }
    for (name, request) in entries(resources, "requests") {
        let limit = &resources["limits"][name.as_str()];
        if let (Some(want), Some(max)) = (quantity::of(request), quantity::of(limit))
            && want > max
        {
            let detail = format!("must be less than or equal to {name} limit of {max}");
            errors.invalid(join(path, "requests"), request.clone(), detail);
        }
    }
}

fn probes(container: &Value, path: &str, scope: &Scope, errors: &mut Errors) {
    const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
    let sidecar = text(container, "restartPolicy") == "Always";
    if scope.init && !sidecar {
        for field in ["lifecycle"].into_iter().chain(PROBES).filter(|f| is_set(container, f)) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.forbidden(join(path, field), detail);
        }
        return;
    }
    for name in PROBES.into_iter().filter(|p| is_set(container, p)) {
        let (probe, path) = (&container[name], join(path, name));
        handler(probe, &path, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.not_negative(probe, &path, field);
        }
        errors.positive(probe, &path, "terminationGracePeriodSeconds");
        let successes = int(probe, "successThreshold").unwrap_or(1);
        if name != "readinessProbe" && successes != 1 {
            errors.invalid(join(&path, "successThreshold"), successes, "must be 1");
        }
        if name == "readinessProbe" && is_set(probe, "terminationGracePeriodSeconds") {
            let value = probe["terminationGracePeriodSeconds"].clone();
            let detail = "must not be set for readinessProbes";
            errors.invalid(join(&path, "terminationGracePeriodSeconds"), value, detail);
        }
    }
    for (hook, action) in entries(container, "lifecycle").filter(|(h, _)| *h != "stopSignal") {
        let path = format!("{path}.lifecycle.{hook}");
        handler(action, &path, &["exec", "httpGet", "tcpSocket", "sleep"], errors);
    }
}

/// Exactly one way to act.
fn handler(handler: &Value, path: &str, kinds: &[&str], errors: &mut Errors) {
    let mut seen = false;
    for &kind in kinds.iter().filter(|k| is_set(handler, k)) {
        let (action, at) = (&handler[kind], join(path, kind));
        if seen {
            errors.forbidden(at, "may not specify more than 1 handler type");
            continue;
        }
        seen = true;
        match kind {
            "exec" => _ = errors.need(action, &at, "command"),
            "httpGet" => {
                errors.need(action, &at, "path");
                errors.port_or_name(action, &at, "port");
                errors.one_of(action, &at, "scheme", &["HTTP", "HTTPS"], true);
            }
            "tcpSocket" => errors.port_or_name(action, &at, "port"),
            "grpc" => {
                let port = int(action, "port").unwrap_or_default();
                errors.complain(&join(&at, "port"), port, syntax::port_number(port));
            }
            _ => errors.not_negative(action, &at, "seconds"),
        }
    }
    if !seen {
        errors.required(path, "must specify a handler type");
    }
}
