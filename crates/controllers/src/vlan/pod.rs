//! Parts that pods of every kind are made of: how they are confined, probed, scraped and attached.

use std::collections::BTreeMap;

use causeway_api::names;
use causeway_translate::proxy::HEALTH_PORT;
use k8s_openapi::{
    api::core::v1::{
        Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
        EnvVarSource, HTTPGetAction, ObjectFieldSelector, PodSecurityContext, PodTemplateSpec, Probe,
        ResourceRequirements, SeccompProfile, SecurityContext, Sysctl, Volume, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use serde_json::json;

use crate::framework::apply::digest;

/// Where a pod keeps what it must not forget while it lives.
pub(crate) const STATE_DIR: &str = "/var/lib/causeway";
pub(crate) const STATE_VOLUME: &str = "state";
/// Where a pod finds the last spec that was accepted.
pub(crate) const ACCEPTED_DIR: &str = "/etc/causeway/accepted";
pub(crate) const ACCEPTED_VOLUME: &str = "accepted";
/// Nobody's user on any usual image.
const USER: i64 = 65532;
/// What a process gets to end that does not answer its probes.
const HUNG_SECONDS: i64 = 10;
/// Drain times up to which pods are the same. The last is the longest that a spec may ask for.
const DRAIN_STEPS: [i64; 4] = [30, 120, 600, 3600];

/// The time to drain that a pod is made for which is asked for this one. In steps, so that another drain time is seldom a
/// reason for another pod, and no longer than that: who deletes a namespace waits for half of it, even if its pods end at
/// once.
pub(crate) fn drain_step(seconds: i64) -> i64 {
    let longest = DRAIN_STEPS[DRAIN_STEPS.len() - 1];
    DRAIN_STEPS.into_iter().find(|step| seconds <= *step).unwrap_or(longest)
}

/// The digest of a pod template: another one replaces its pod.
pub(crate) fn template_hash(template: &PodTemplateSpec) -> Option<(String, String)> {
    let value = serde_json::to_value(template).ok()?;
    Some((names::ANNOTATION_TEMPLATE_HASH.to_owned(), digest(value.as_object()?)))
}

/// What tells Multus to attach a pod to a network under an address.
pub(crate) fn networks(name: &str, namespace: &str, address: &str) -> (String, String) {
    // The order of members is fixed: the same wish is the same text, and no reason for another pod.
    let text = format!(
        r#"[{{"name":{},"namespace":{},"ips":[{}]}}]"#,
        json!(name),
        json!(namespace),
        json!(address)
    );
    (names::ANNOTATION_NETWORKS.to_owned(), text)
}

/// Where a Prometheus that goes by annotations finds the metrics: on the pod's address, beside its health.
pub(crate) fn scraped() -> [(String, String); 3] {
    let port = HEALTH_PORT.to_string();
    [("scrape", "true"), ("port", &port), ("path", "/metrics")]
        .map(|(key, value)| (format!("prometheus.io/{key}"), value.to_owned()))
}

/// The token of an account that was deleted is void, also when there is another one of its name.
pub(crate) fn made_with(account: Option<&str>) -> Option<(String, String)> {
    Some((names::ANNOTATION_ACCOUNT.to_owned(), account?.to_owned()))
}

/// A pod that passes the `restricted` level and can still listen on low ports.
pub(crate) fn unprivileged() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        // A process that is not root has no use of the capability alone: it is not ambient. The sysctl is of the
        // pod's own network namespace, and one of those that every cluster takes as safe.
        sysctls: Some(vec![Sysctl {
            name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
            value: "0".to_owned(),
        }]),
        ..PodSecurityContext::default()
    }
}

/// The variables that tell a pod who and where it is.
pub(crate) fn environment() -> Vec<EnvVar> {
    let env = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), ..Default::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    vec![
        env("POD_NAME", "metadata.name"),
        env("POD_NAMESPACE", "metadata.namespace"),
        env("POD_IP", "status.podIP"),
    ]
}

/// The port of health and metrics.
pub(crate) fn health_port() -> ContainerPort {
    ContainerPort {
        name: Some("health".to_owned()),
        container_port: i32::from(HEALTH_PORT),
        ..ContainerPort::default()
    }
}

/// A container with the probes of this program.
pub(crate) fn probed() -> Container {
    Container {
        startup_probe: Some(ending(probe("/healthz", 1, 60))),
        readiness_probe: Some(probe("/ready", 2, 2)),
        liveness_probe: Some(ending(probe("/healthz", 10, 3))),
        ..Container::default()
    }
}

/// A small volume that goes with the pod.
pub(crate) fn scratch(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity("64Mi".to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// A ConfigMap that need not be there.
pub(crate) fn optional_config(name: &str, config_map: String) -> Volume {
    Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map,
            optional: Some(true),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("health".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(2),
        ..Probe::default()
    }
}

/// A process that does not answer will not drain either.
fn ending(probe: Probe) -> Probe {
    Probe { termination_grace_period_seconds: Some(HUNG_SECONDS), ..probe }
}

pub(crate) fn resources(cpu: &str, memory: &str, limit: &str) -> ResourceRequirements {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    ResourceRequirements {
        requests: Some(BTreeMap::from([quantity("cpu", cpu), quantity("memory", memory)])),
        limits: Some(BTreeMap::from([quantity("memory", limit)])),
        ..ResourceRequirements::default()
    }
}

pub(crate) fn confined() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: Some(vec!["NET_BIND_SERVICE".to_owned()]),
        }),
        ..SecurityContext::default()
    }
}

pub(crate) fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
