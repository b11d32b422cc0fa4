//! The Deployment of one address: a static address cannot be shared, so each has one pod, replaced and never doubled.
//! Nothing of a backend is in here, so that an edit of backends restarts nothing; nor the level of our own log, which a
//! proxy reads from its object.

use std::collections::BTreeMap;

use causeway_api::{Engine, LogLevel, names};
use causeway_translate::proxy::{HEALTH_PORT, bare_address};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{
            Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
            EnvVarSource, HTTPGetAction, Lifecycle, LifecycleHandler, ObjectFieldSelector,
            PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile,
            SecurityContext, Sysctl, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use serde_json::{Value, json};

use super::{Subject, deployment_name, with_prefix};
use crate::framework::apply::digest;

const STATE_DIR: &str = "/var/lib/causeway";
const STATE_VOLUME: &str = "state";
const BOOTSTRAP_DIR: &str = "/etc/envoy";
const BOOTSTRAP_VOLUME: &str = "bootstrap-config";
/// Nobody's user on any usual image.
const USER: i64 = 65532;
/// What a proxy needs beyond its drain time to end.
const SHUTDOWN_MARGIN_SECONDS: i64 = 10;

/// The Deployment for the address at `index` of the spec.
pub(crate) fn deployment(
    subject: &Subject<'_>,
    index: usize,
    address: &str,
    start: Option<&Value>,
) -> Deployment {
    let replica = (names::LABEL_REPLICA.to_owned(), (index + 1).to_string());
    let mut selector = subject.selector();
    selector.extend([replica.clone()]);
    let mut labels = subject.labels();
    labels.extend([replica, (names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned())]);
    let annotations: BTreeMap<_, _> =
        networks(subject, address).into_iter().chain(config_hash(start)).collect();
    let metadata = ObjectMeta {
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..ObjectMeta::default()
    };
    Deployment {
        metadata: subject.metadata(deployment_name(&subject.name, index)),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            selector: LabelSelector { match_labels: Some(selector), ..LabelSelector::default() },
            template: PodTemplateSpec { metadata: Some(metadata), spec: Some(pod(subject, address)) },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// What tells Multus to attach the pod to the isolated network under its address.
fn networks(subject: &Subject<'_>, address: &str) -> Option<(String, String)> {
    let network = &subject.spec.network_config;
    let name = network.network_attachment_name.as_ref()?;
    let namespace = network.network_attachment_namespace.as_ref().unwrap_or(&subject.namespace);
    // The order of members is fixed: the same wish is the same text, and no reason for another pod.
    let text = format!(
        r#"[{{"name":{},"namespace":{},"ips":[{}]}}]"#,
        json!(name),
        json!(namespace),
        json!(with_prefix(address))
    );
    Some((names::ANNOTATION_NETWORKS.to_owned(), text))
}

fn config_hash(start: Option<&Value>) -> Option<(String, String)> {
    Some((names::ANNOTATION_CONFIG_HASH.to_owned(), digest(start?.as_object()?)))
}

fn pod(subject: &Subject<'_>, address: &str) -> PodSpec {
    let spec = subject.spec;
    let image = spec.manager_image.as_ref().unwrap_or(&subject.settings.manager_image);
    let mut volumes = vec![Volume {
        name: STATE_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity("64Mi".to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }];
    let containers = match subject.engine {
        Engine::Native => vec![causeway(subject, "proxy", image, address)],
        Engine::Envoy => {
            volumes.push(Volume {
                name: BOOTSTRAP_VOLUME.to_owned(),
                config_map: Some(ConfigMapVolumeSource {
                    name: subject.bootstrap(),
                    ..ConfigMapVolumeSource::default()
                }),
                ..Volume::default()
            });
            vec![envoy(subject), causeway(subject, "manager", image, address)]
        }
    };
    PodSpec {
        service_account_name: Some(subject.account()),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(i64::from(spec.drain_seconds) + SHUTDOWN_MARGIN_SECONDS),
        security_context: Some(PodSecurityContext {
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
        }),
        volumes: Some(volumes),
        containers,
        ..PodSpec::default()
    }
}

/// This program: the native engine, or the server that Envoy asks.
fn causeway(subject: &Subject<'_>, name: &str, image: &str, address: &str) -> Container {
    let spec = subject.spec;
    let address = bare_address(address).map_or_else(|| address.to_owned(), |address| address.to_string());
    let (cpu, memory, limit) = match subject.engine {
        Engine::Native => ("20m", "32Mi", "512Mi"),
        Engine::Envoy => ("10m", "32Mi", "128Mi"),
    };
    let mut args = vec!["proxy".to_owned()];
    let mut flag = |flag: &str, value: &str| args.extend([format!("--{flag}"), value.to_owned()]);
    flag("namespace", &subject.namespace);
    flag("proxy-name", &subject.name);
    flag("server-ip", &address);
    flag("state-dir", STATE_DIR);
    flag("admin-port", &spec.admin_port.to_string());
    if !subject.settings.require_grants {
        flag("require-grants", "false");
    }
    if subject.engine == Engine::Envoy {
        flag("engine", "envoy");
        flag("xds-port", &spec.xds_port.to_string());
        flag("socket-dir", ".");
    }
    let env = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), ..Default::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        args: Some(args),
        working_dir: Some(STATE_DIR.to_owned()),
        env: Some(vec![
            env("POD_NAME", "metadata.name"),
            env("POD_NAMESPACE", "metadata.namespace"),
            env("POD_IP", "status.podIP"),
        ]),
        ports: Some(vec![ContainerPort {
            name: Some("health".to_owned()),
            container_port: i32::from(HEALTH_PORT),
            ..ContainerPort::default()
        }]),
        startup_probe: Some(probe("/healthz", 1, 60)),
        readiness_probe: Some(probe("/ready", 2, 2)),
        liveness_probe: Some(probe("/healthz", 10, 3)),
        resources: Some(resources(cpu, memory, limit)),
        security_context: Some(confined()),
        volume_mounts: Some(vec![mount(STATE_VOLUME, STATE_DIR, false)]),
        ..Container::default()
    }
}

/// Envoy, started past its image's entry point, which wants to be root.
fn envoy(subject: &Subject<'_>) -> Container {
    let spec = subject.spec;
    let level = match spec.log_level {
        LogLevel::Trace => "trace",
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warning => "warning",
        LogLevel::Error => "error",
        LogLevel::Critical => "critical",
    };
    let drain = spec.drain_seconds.to_string();
    let config = format!("{BOOTSTRAP_DIR}/bootstrap.json");
    Container {
        name: "envoy".to_owned(),
        image: Some(spec.proxy_image.as_ref().unwrap_or(&subject.settings.proxy_image).clone()),
        command: Some(vec!["/usr/local/bin/envoy".to_owned()]),
        // Nobody starts a second Envoy in this container, and those of other pods may share this machine's names.
        args: Some(
            ["-c", &config, "-l", level, "--drain-time-s", &drain, "--disable-hot-restart"]
                .map(str::to_owned)
                .to_vec(),
        ),
        working_dir: Some(STATE_DIR.to_owned()),
        resources: Some(resources("100m", "128Mi", "512Mi")),
        security_context: Some(confined()),
        // Envoy ends at once when it is told to; the manager, told at the same time, says when it may.
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                http_get: Some(HTTPGetAction {
                    path: Some("/drained".to_owned()),
                    port: IntOrString::Int(i32::from(HEALTH_PORT)),
                    ..HTTPGetAction::default()
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        volume_mounts: Some(vec![
            mount(BOOTSTRAP_VOLUME, BOOTSTRAP_DIR, true),
            mount(STATE_VOLUME, STATE_DIR, false),
        ]),
        ..Container::default()
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

fn resources(cpu: &str, memory: &str, limit: &str) -> ResourceRequirements {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    ResourceRequirements {
        requests: Some(BTreeMap::from([quantity("cpu", cpu), quantity("memory", memory)])),
        limits: Some(BTreeMap::from([quantity("memory", limit)])),
        ..ResourceRequirements::default()
    }
}

fn confined() -> SecurityContext {
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

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
