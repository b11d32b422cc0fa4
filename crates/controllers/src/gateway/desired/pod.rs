//! The Deployment of a Gateway's pods: the next one is ready before the last one goes, and one after another.

use std::collections::BTreeMap;

use causeway_api::names;
use causeway_translate::{
    endpoints::Protocol,
    gateway_pod::{HEALTH_PORT, target_port},
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Container, ContainerPort, EmptyDirVolumeSource, EnvVar, PodSpec, PodTemplateSpec,
            SecretVolumeSource, TopologySpreadConstraint, Volume,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

use super::{SESSION_ENTRY, Subject, session_name};
use crate::{
    pod_template,
    vlan::pod::{self as parts, STATE_DIR, STATE_VOLUME, confined, drain_step, mount, resources},
};

/// What a pod needs to end beyond the drain of its plan.
const ENDING_SECONDS: i64 = 15;

/// Where what sessions are signed with is.
const SESSION_VOLUME: &str = "session";
const SESSION_DIR: &str = "/run/causeway/session";

/// The Deployment.
pub(super) fn deployment(subject: &Subject<'_>, name: &str) -> Deployment {
    let mut labels = subject.labels();
    labels.insert(names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned());
    let mut annotations = subject.picture.annotations.clone();
    annotations.extend(scraped());
    let metadata =
        ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() };
    let mut template = PodTemplateSpec { metadata: Some(metadata), spec: Some(pod(subject, name)) };
    pod_template::complete(&mut template, &subject.effective.pod_template);
    // Two pods can't have the same port of a node, and there may be no other node.
    let (surge, away) = if subject.effective.host_ports { (0, 1) } else { (1, 0) };
    Deployment {
        metadata: subject.metadata(name),
        spec: Some(DeploymentSpec {
            replicas: Some(subject.effective.replicas),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(surge)),
                    max_unavailable: Some(IntOrString::Int(away)),
                }),
            }),
            selector: selects(subject.selector()),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod(subject: &Subject<'_>, name: &str) -> PodSpec {
    PodSpec {
        service_account_name: Some(name.to_owned()),
        enable_service_links: Some(false),
        topology_spread_constraints: Some(vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(selects(subject.selector())),
            ..TopologySpreadConstraint::default()
        }]),
        termination_grace_period_seconds: Some(termination_seconds(subject)),
        security_context: Some(parts::unprivileged()),
        // In memory: the last certificates are in it, for a process that starts again while nobody can be asked.
        volumes: Some(vec![
            Volume {
                name: STATE_VOLUME.to_owned(),
                empty_dir: Some(EmptyDirVolumeSource {
                    medium: Some("Memory".to_owned()),
                    size_limit: Some(Quantity("64Mi".to_owned())),
                }),
                ..Volume::default()
            },
            Volume {
                name: SESSION_VOLUME.to_owned(),
                secret: Some(SecretVolumeSource {
                    secret_name: Some(session_name(name)),
                    ..SecretVolumeSource::default()
                }),
                ..Volume::default()
            },
        ]),
        containers: vec![container(subject, name)],
        ..PodSpec::default()
    }
}

/// How long a pod may take to end.
fn termination_seconds(subject: &Subject<'_>) -> i64 {
    let drain = subject.picture.plan.drain_timeout.as_secs();
    drain_step(i64::try_from(drain).unwrap_or(i64::MAX)) + ENDING_SECONDS
}

fn container(subject: &Subject<'_>, name: &str) -> Container {
    let mut args = vec!["gateway".to_owned()];
    let mut flag = |flag: &str, value: &str| args.extend([format!("--{flag}"), value.to_owned()]);
    flag("namespace", &subject.at.namespace);
    flag("plan-name", name);
    flag("state-dir", STATE_DIR);
    let mut ports = vec![ContainerPort {
        name: Some("health".to_owned()),
        container_port: i32::from(HEALTH_PORT),
        ..ContainerPort::default()
    }];
    if subject.effective.host_ports {
        ports.extend(subject.picture.ports.iter().map(|port| ContainerPort {
            container_port: i32::from(target_port(port.number)),
            host_port: Some(i32::from(port.number)),
            protocol: (port.protocol == Protocol::Udp).then(|| "UDP".to_owned()),
            ..ContainerPort::default()
        }));
    }
    // Not an argument: pods may be of an older image that does not know it.
    let mut env = parts::environment();
    let mut set = |name: &str, value: String| {
        env.push(EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() });
    };
    set("SESSION_KEY_FILE", format!("{SESSION_DIR}/{SESSION_ENTRY}"));
    if let Some(traces) = &subject.effective.traces {
        set("OTEL_EXPORTER_OTLP_ENDPOINT", traces.collector.clone());
        let percent = traces.percent.unwrap_or_default();
        set("OTEL_TRACES_SAMPLER_ARG", format!("{}.{:02}", percent / 100, percent % 100));
        set("OTEL_SERVICE_NAME", subject.at.to_string());
    }
    Container {
        name: "gateway".to_owned(),
        image: Some(subject.effective.image.clone()),
        args: Some(args),
        working_dir: Some(STATE_DIR.to_owned()),
        env: Some(env),
        ports: Some(ports),
        resources: Some(resources("20m", "48Mi", "1Gi")),
        security_context: Some(confined()),
        volume_mounts: Some(vec![
            mount(STATE_VOLUME, STATE_DIR, false),
            mount(SESSION_VOLUME, SESSION_DIR, true),
        ]),
        ..parts::probed()
    }
}

/// Where a Prometheus that goes by annotations finds the metrics.
fn scraped() -> [(String, String); 3] {
    let port = HEALTH_PORT.to_string();
    [("scrape", "true"), ("port", &port), ("path", "/metrics")]
        .map(|(key, value)| (format!("prometheus.io/{key}"), value.to_owned()))
}

fn selects(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
