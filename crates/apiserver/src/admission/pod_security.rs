//! Kubernetes' Pod Security Standards: what a pod may ask for, by the level of its namespace.
//!
//! A namespace without the label has the level `baseline`; on a cluster it would be `privileged`. Here a pod that reaches
//! the host reaches the files of whoever runs the control plane, so that is for an administrator to allow.

use std::fmt;

use serde_json::Value;

/// The label of a namespace that says its level.
pub(super) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Capabilities that `baseline` lets a container add: those that container runtimes give by default.
const USUAL_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Sysctls of the pod's own namespaces.
const SAFE_SYSCTLS: [&str; 11] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
];
const RESTRICTED_VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// How much pods of a namespace may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// The level that a label asks for; what can't be understood is taken as the strictest, as Kubernetes does.
    pub(super) fn of(label: Option<&str>) -> Self {
        match label {
            Some("privileged") => Self::Privileged,
            None | Some("baseline") => Self::Baseline,
            Some(_) => Self::Restricted,
        }
    }

    /// What in a pod's spec goes beyond the level, each in a few words.
    pub(super) fn violations(self, spec: &Value) -> Vec<String> {
        let mut found = Vec::new();
        if self >= Self::Baseline {
            baseline(spec, &mut found);
        }
        if self >= Self::Restricted {
            restricted(spec, &mut found);
        }
        found
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

fn baseline(spec: &Value, found: &mut Vec<String>) {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[field] == true {
            found.push(format!("host namespaces ({field}=true)"));
        }
    }
    for volume in items(spec, "volumes").filter(|volume| !volume["hostPath"].is_null()) {
        found.push(format!("hostPath volumes (volume {})", volume["name"]));
    }
    for sysctl in items(&spec["securityContext"], "sysctls") {
        if !is_among(&SAFE_SYSCTLS, &sysctl["name"]) {
            found.push(format!("forbidden sysctls ({})", sysctl["name"]));
        }
    }
    check_profiles("pod", &spec["securityContext"], found);
    for container in containers(spec) {
        let (who, context) = (format!("container {}", container["name"]), &container["securityContext"]);
        if context["privileged"] == true {
            found.push(format!("privileged ({who} must not set securityContext.privileged=true)"));
        }
        for capability in items(&context["capabilities"], "add") {
            if !is_among(&USUAL_CAPABILITIES, capability) {
                found.push(format!("non-default capabilities ({who} must not add {capability})"));
            }
        }
        for port in items(container, "ports").filter(|port| port["hostPort"].as_i64().unwrap_or(0) != 0) {
            found.push(format!("hostPort ({who} uses hostPort {})", port["hostPort"]));
        }
        if !matches!(context["procMount"].as_str(), None | Some("Default")) {
            found.push(format!("procMount ({who} must not set securityContext.procMount)"));
        }
        check_profiles(&who, context, found);
        if asks_other_hosts(container) {
            found.push(format!("probe or lifecycle host ({who} must not name a host to ask)"));
        }
    }
}

/// Profiles that confine a container may be chosen, not switched off.
fn check_profiles(who: &str, context: &Value, found: &mut Vec<String>) {
    for profile in ["seccompProfile", "appArmorProfile"] {
        if context[profile]["type"] == "Unconfined" {
            found
                .push(format!("{profile} ({who} must not set securityContext.{profile}.type to Unconfined)"));
        }
    }
    let selinux = &context["seLinuxOptions"];
    let is_usual = |field: &str, usual: &[&str]| selinux[field].as_str().is_none_or(|v| usual.contains(&v));
    if !is_usual("type", &SELINUX_TYPES) || !is_usual("user", &[""]) || !is_usual("role", &[""]) {
        found.push(format!("seLinuxOptions ({who} sets a forbidden type, user or role)"));
    }
    if context["windowsOptions"]["hostProcess"] == true {
        found.push(format!(
            "hostProcess ({who} must not set securityContext.windowsOptions.hostProcess=true)"
        ));
    }
}

/// A probe or hook that names a host would have the node ask it, from the node's own network.
fn asks_other_hosts(container: &Value) -> bool {
    let lifecycle = &container["lifecycle"];
    let handlers = [
        &container["livenessProbe"],
        &container["readinessProbe"],
        &container["startupProbe"],
        &lifecycle["postStart"],
        &lifecycle["preStop"],
    ];
    let host_of = |handler: &Value, kind: &str| {
        handler[kind]["host"].as_str().is_some_and(|host| !matches!(host, "" | "127.0.0.1" | "::1"))
    };
    handlers.iter().any(|handler| host_of(handler, "httpGet") || host_of(handler, "tcpSocket"))
}

fn restricted(spec: &Value, found: &mut Vec<String>) {
    for volume in items(spec, "volumes") {
        let kind = volume.as_object().into_iter().flatten().find(|(key, v)| *key != "name" && !v.is_null());
        if let Some((kind, _)) = kind.filter(|(kind, _)| !RESTRICTED_VOLUMES.contains(&kind.as_str())) {
            found.push(format!("restricted volume types (volume {} is a {kind})", volume["name"]));
        }
    }
    let pod = &spec["securityContext"];
    if pod["runAsUser"] == 0 {
        found.push("runAsUser=0 (pod must not set runAsUser=0)".to_owned());
    }
    for container in containers(spec) {
        let (who, context) = (format!("container {}", container["name"]), &container["securityContext"]);
        if context["allowPrivilegeEscalation"] != false {
            found.push(format!("allowPrivilegeEscalation != false ({who})"));
        }
        let drops_all = items(&context["capabilities"], "drop").any(|capability| capability == "ALL");
        let adds = items(&context["capabilities"], "add").any(|capability| capability != "NET_BIND_SERVICE");
        if !drops_all || adds {
            found.push(format!(
                "unrestricted capabilities ({who} must drop ALL and may add NET_BIND_SERVICE)"
            ));
        }
        let or_pods = |field: &str| if context[field].is_null() { &pod[field] } else { &context[field] };
        if or_pods("runAsNonRoot") != &Value::Bool(true) {
            found.push(format!("runAsNonRoot != true (pod or {who})"));
        }
        if context["runAsUser"] == 0 {
            found.push(format!("runAsUser=0 ({who} must not set runAsUser=0)"));
        }
        if !is_among(&["RuntimeDefault", "Localhost"], &or_pods("seccompProfile")["type"]) {
            found.push(format!("seccompProfile (pod or {who} must be RuntimeDefault or Localhost)"));
        }
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| items(spec, list))
}

fn items<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object[key].as_array().into_iter().flatten()
}

fn is_among(list: &[&str], value: &Value) -> bool {
    value.as_str().is_some_and(|value| list.contains(&value))
}

#[cfg(test)]
mod tests;
