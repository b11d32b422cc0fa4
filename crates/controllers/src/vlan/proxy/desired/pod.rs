//! The Deployment of one address. On an attachment the address is the pod's own and can't be had twice, so the pod is
//! replaced; elsewhere the next one is ready before the last one goes. Nothing is in here that a running proxy can follow:
//! backends, limits, the level of the log and the time to drain are read from the object.

use std::collections::BTreeMap;

use causeway_api::{Engine, names};
use causeway_translate::proxy::{HEALTH_PORT, bare_address, with_prefix};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            ConfigMapVolumeSource, Container, HTTPGetAction, Lifecycle, LifecycleHandler, PodSpec,
            PodTemplateSpec, Volume,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use serde_json::Value;

use super::{Subject, deployment_name, disruption};
use crate::{
    framework::apply::digest,
    pod_template,
    vlan::{
        pod::{
            self as parts, ACCEPTED_DIR, ACCEPTED_VOLUME, STATE_DIR, STATE_VOLUME, confined, drain_step,
            made_with, mount, resources, scraped, template_hash,
        },
        proxy::{places::Place, update::asked_hash},
    },
};

const BOOTSTRAP_DIR: &str = "/etc/envoy";
const BOOTSTRAP_VOLUME: &str = "bootstrap-config";
/// What a proxy needs to end beyond its drain.
const ENDING_SECONDS: i64 = 10;

/// How long a pod may take to end.
pub(crate) fn termination_seconds(drain: i32) -> i64 {
    drain_step(i64::from(drain)) + ENDING_SECONDS
}

/// The Deployment for one address of the spec.
pub(crate) fn deployment(
    subject: &Subject<'_>,
    place: Place<'_>,
    start: Option<&Value>,
    account: Option<&str>,
) -> Deployment {
    let Place { index, address } = place;
    let replica = (names::LABEL_REPLICA.to_owned(), (index + 1).to_string());
    let mut selector = subject.selector();
    selector.extend([replica.clone()]);
    let mut labels = subject.labels();
    labels.extend([replica, (names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned())]);
    let annotations =
        address.and_then(|address| networks(subject, address)).into_iter().chain(config_hash(start));
    let annotations: BTreeMap<_, _> = annotations.chain(made_with(account)).chain(scraped()).collect();
    let metadata =
        ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() };
    let mut template = PodTemplateSpec { metadata: Some(metadata), spec: Some(pod(subject, address)) };
    pod_template::complete(&mut template, &subject.settings.pod_template(subject.spec));
    let mut metadata = subject.metadata(deployment_name(&subject.name, index));
    let asked = asked_hash(subject.spec, subject.engine, address, account);
    let asked = (names::ANNOTATION_ASKED_HASH.to_owned(), asked);
    metadata.annotations = Some(template_hash(&template).into_iter().chain([asked]).collect());
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            strategy: Some(strategy(subject)),
            selector: LabelSelector { match_labels: Some(selector), ..LabelSelector::default() },
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn strategy(subject: &Subject<'_>) -> DeploymentStrategy {
    if subject.spec.network_config.network_attachment_name.is_some() {
        return DeploymentStrategy { type_: Some("Recreate".to_owned()), rolling_update: None };
    }
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(1)),
            max_unavailable: Some(IntOrString::Int(0)),
        }),
    }
}

/// What tells Multus to attach the pod to the isolated network under its address.
fn networks(subject: &Subject<'_>, address: &str) -> Option<(String, String)> {
    let network = &subject.spec.network_config;
    let name = network.network_attachment_name.as_ref()?;
    let namespace = network.network_attachment_namespace.as_ref().unwrap_or(&subject.namespace);
    let address = with_prefix(network, address).unwrap_or_else(|| address.to_owned());
    Some(parts::networks(name, namespace, &address))
}

fn config_hash(start: Option<&Value>) -> Option<(String, String)> {
    Some((names::ANNOTATION_CONFIG_HASH.to_owned(), digest(start?.as_object()?)))
}

fn pod(subject: &Subject<'_>, address: Option<&str>) -> PodSpec {
    let spec = subject.spec;
    let image = spec.manager_image.as_ref().unwrap_or(&subject.settings.manager_image);
    let mut volumes = vec![
        parts::scratch(STATE_VOLUME),
        // There is none before the first spec was accepted.
        parts::optional_config(ACCEPTED_VOLUME, names::accepted_config_map(&subject.name)),
    ];
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
        topology_spread_constraints: Some(disruption::spread(subject)),
        termination_grace_period_seconds: Some(termination_seconds(spec.drain_seconds)),
        security_context: Some(parts::unprivileged()),
        volumes: Some(volumes),
        containers,
        ..PodSpec::default()
    }
}

/// This program: the native engine, or the server that Envoy asks.
fn causeway(subject: &Subject<'_>, name: &str, image: &str, address: Option<&str>) -> Container {
    let spec = subject.spec;
    let (cpu, memory, limit) = match subject.engine {
        Engine::Native => ("20m", "32Mi", "512Mi"),
        Engine::Envoy => ("10m", "32Mi", "128Mi"),
    };
    let mut args = vec!["proxy".to_owned()];
    let mut flag = |flag: &str, value: &str| args.extend([format!("--{flag}"), value.to_owned()]);
    flag("namespace", &subject.namespace);
    flag("proxy-name", &subject.name);
    if let Some(text) = address {
        flag("server-ip", &bare_address(text).map_or_else(|| text.to_owned(), |address| address.to_string()));
    }
    flag("state-dir", STATE_DIR);
    flag("accepted", &format!("{ACCEPTED_DIR}/{}", names::ACCEPTED_FILE));
    flag("admin-port", &spec.admin_port.to_string());
    if !subject.settings.require_grants {
        flag("require-grants", "false");
    }
    if subject.engine == Engine::Envoy {
        flag("engine", "envoy");
        flag("xds-port", &spec.xds_port.to_string());
        flag("socket-dir", ".");
    }
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        args: Some(args),
        working_dir: Some(STATE_DIR.to_owned()),
        env: Some(parts::environment()),
        ports: Some(vec![parts::health_port()]),
        resources: Some(resources(cpu, memory, limit)),
        security_context: Some(confined()),
        volume_mounts: Some(vec![
            mount(STATE_VOLUME, STATE_DIR, false),
            mount(ACCEPTED_VOLUME, ACCEPTED_DIR, true),
        ]),
        ..parts::probed()
    }
}

/// Envoy, started past its image's entry point, which wants to be root.
fn envoy(subject: &Subject<'_>) -> Container {
    let spec = subject.spec;
    // Envoy is told how long to drain when it starts, and never again.
    let drain = spec.drain_seconds.to_string();
    let config = format!("{BOOTSTRAP_DIR}/bootstrap.json");
    Container {
        name: "envoy".to_owned(),
        image: Some(spec.proxy_image.as_ref().unwrap_or(&subject.settings.proxy_image).clone()),
        command: Some(vec!["/usr/local/bin/envoy".to_owned()]),
        // Nobody starts a second Envoy in this container, and those of other pods may share this machine's names.
        args: Some(
            ["-c", &config, "--drain-time-s", &drain, "--disable-hot-restart"].map(str::to_owned).to_vec(),
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
