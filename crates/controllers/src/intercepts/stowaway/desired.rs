//! The objects of the cluster's end. Pure; the ports of nodes that could not be had are told.

use std::collections::BTreeMap;

use causeway_api::names;
use causeway_translate::{
    intercept::names::{CARRIER_PORT, LINK_PORT, STOWAWAY_HEALTH_PORT, WIREGUARD_PORT},
    stowaway_pod::Told,
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Container, ContainerPort, EmptyDirVolumeSource, PodSpec, PodTemplateSpec, Secret, Service,
            ServiceAccount, ServicePort, ServiceSpec, TopologySpreadConstraint, Volume,
        },
        networking::v1::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
        rbac::v1::{Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

use super::OWNER_KIND;
use crate::{
    framework::{
        apply::Wanted,
        children::Children,
        kinds::{
            DEPLOYMENT, NETWORK_POLICY, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SECRET, SERVICE,
            SERVICE_ACCOUNT,
        },
    },
    intercepts::settings::{Entry, Settings},
    pod_template,
    vlan::{
        access::{OPENSHIFT_CLUSTER_ROLE, bind, rule},
        pod::{self as parts, STATE_DIR, STATE_VOLUME, confined, made_with, mount, resources},
        proxy,
    },
};

const NAME: &str = names::STOWAWAY;
/// What a pod may take to end: streams of laptops move to the other one, or come to their end.
const TERMINATION_SECONDS: i64 = 45;

/// The name of the Service that laptops come by.
pub(crate) fn entry_name() -> String {
    format!("{NAME}-entry")
}

/// The name of the right to connect through the API server.
fn connect_name() -> String {
    format!("{NAME}-connect")
}

/// What the objects are made by.
pub(crate) struct MadeBy<'a> {
    /// The operator's settings for workstations.
    pub(crate) settings: &'a Settings,
    /// Those for pods.
    pub(crate) pods: &'a proxy::Settings,
    /// The pods that are there.
    pub(crate) pod_names: &'a [String],
    /// The ports of nodes to ask for: for links, and for WireGuard; any if left out.
    pub(crate) node_ports: [Option<i32>; 2],
}

/// The objects as they should be. Not to be shown: there are keys in it.
pub(crate) struct Desired {
    pub(crate) secret: Secret,
    pub(crate) service_account: ServiceAccount,
    roles: Vec<Role>,
    role_bindings: Vec<RoleBinding>,
    service: Service,
    /// None where laptops come otherwise.
    pub(crate) entry: Option<Service>,
    policy: NetworkPolicy,
    budget: PodDisruptionBudget,
    pub(crate) deployment: Deployment,
}

impl Desired {
    /// Everything.
    pub(crate) fn new(made: &MadeBy<'_>, told: &Told) -> Self {
        Self {
            secret: Secret {
                metadata: metadata(NAME),
                type_: Some("Opaque".to_owned()),
                data: Some(told.entries()),
                ..Secret::default()
            },
            service_account: ServiceAccount { metadata: metadata(NAME), ..ServiceAccount::default() },
            roles: made.roles(),
            role_bindings: made.role_bindings(),
            service: service(NAME, "ClusterIP", all_ports([None; 2], true)),
            entry: made.entry(),
            policy: policy(),
            budget: budget(),
            deployment: made.deployment(),
        }
    }

    /// What has to be there before the pods.
    pub(crate) fn foundation(&self) -> Vec<Wanted> {
        let mut wanted =
            vec![Wanted::new(SECRET, &self.secret), Wanted::new(SERVICE_ACCOUNT, &self.service_account)];
        wanted.extend(self.roles.iter().map(|role| Wanted::new(ROLE, role)));
        wanted.extend(self.role_bindings.iter().map(|binding| Wanted::new(ROLE_BINDING, binding)));
        wanted
    }

    /// The rest, but for the Service that laptops come by.
    pub(crate) fn rest(&self, children: &Children) -> Vec<Wanted> {
        let mut wanted = vec![Wanted::new(SERVICE, &self.service), Wanted::new(DEPLOYMENT, &self.deployment)];
        if children.served(POD_DISRUPTION_BUDGET).is_some() {
            wanted.push(Wanted::new(POD_DISRUPTION_BUDGET, &self.budget));
        }
        if children.served(NETWORK_POLICY).is_some() {
            wanted.push(Wanted::new(NETWORK_POLICY, &self.policy));
        }
        wanted
    }

    /// Makes the pods with this account, by its uid.
    pub(crate) fn set_account(&mut self, uid: &str) {
        let template = self.deployment.spec.as_mut().map(|spec| &mut spec.template);
        if let Some(metadata) = template.map(|template| template.metadata.get_or_insert_default()) {
            metadata.annotations.get_or_insert_default().extend(made_with(Some(uid)));
        }
    }
}

fn labels() -> BTreeMap<String, String> {
    let mut labels = selector();
    labels.insert(names::LABEL_OWNER_KIND.to_owned(), OWNER_KIND.to_owned());
    labels
}

/// What finds the pods.
fn selector() -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::LABEL_APP.to_owned(), names::APP_STOWAWAY.to_owned()),
        (names::LABEL_OWNER_NAME.to_owned(), NAME.to_owned()),
    ])
}

fn selects() -> LabelSelector {
    LabelSelector { match_labels: Some(selector()), ..LabelSelector::default() }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels()), ..ObjectMeta::default() }
}

impl MadeBy<'_> {
    /// The pods read what they are told; people reach the pods, and those alone, through the API server.
    fn roles(&self) -> Vec<Role> {
        let read = ["get", "list", "watch"];
        let own =
            Role { metadata: metadata(NAME), rules: Some(vec![rule("", &["secrets"], &read, &[NAME])]) };
        let pods: Vec<&str> = self.pod_names.iter().map(String::as_str).collect();
        let mut roles = vec![own];
        if self.settings.connect_group.is_some() && !pods.is_empty() {
            let rules = vec![
                rule("", &["pods"], &["get"], &pods),
                rule("", &["pods/portforward"], &["get", "create"], &pods),
            ];
            roles.push(Role { metadata: metadata(&connect_name()), rules: Some(rules) });
        }
        roles
    }

    fn role_bindings(&self) -> Vec<RoleBinding> {
        let to = (self.settings.namespace.as_str(), NAME);
        let mut bindings = vec![bind(metadata(NAME), ("Role", NAME), to)];
        if self.pods.openshift {
            let metadata = metadata(&format!("{NAME}-nonroot-scc"));
            bindings.push(bind(metadata, ("ClusterRole", OPENSHIFT_CLUSTER_ROLE), to));
        }
        if let (Some(group), false) = (&self.settings.connect_group, self.pod_names.is_empty()) {
            let api_group = "rbac.authorization.k8s.io".to_owned();
            bindings.push(RoleBinding {
                metadata: metadata(&connect_name()),
                role_ref: RoleRef {
                    api_group: api_group.clone(),
                    kind: "Role".to_owned(),
                    name: connect_name(),
                },
                subjects: Some(vec![Subject {
                    kind: "Group".to_owned(),
                    name: group.clone(),
                    api_group: Some(api_group),
                    ..Subject::default()
                }]),
            });
        }
        bindings
    }

    fn entry(&self) -> Option<Service> {
        let type_ = match self.settings.entry {
            Entry::PortForward | Entry::ClusterIP => return None,
            Entry::NodePort => "NodePort",
            Entry::LoadBalancer => "LoadBalancer",
        };
        Some(service(&entry_name(), type_, all_ports(self.node_ports, false)))
    }

    fn deployment(&self) -> Deployment {
        let mut labels = labels();
        labels.insert(names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned());
        let metadata =
            ObjectMeta { labels: Some(labels), annotations: Some(scraped().into()), ..ObjectMeta::default() };
        let mut template = PodTemplateSpec { metadata: Some(metadata), spec: Some(self.pod()) };
        pod_template::complete(&mut template, &self.pods.pod_template);
        Deployment {
            metadata: self::metadata(NAME),
            spec: Some(DeploymentSpec {
                replicas: Some(self.settings.replicas),
                strategy: Some(DeploymentStrategy {
                    type_: Some("RollingUpdate".to_owned()),
                    rolling_update: Some(RollingUpdateDeployment {
                        max_surge: Some(IntOrString::Int(1)),
                        max_unavailable: Some(IntOrString::Int(0)),
                    }),
                }),
                selector: selects(),
                template,
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        }
    }

    fn pod(&self) -> PodSpec {
        PodSpec {
            service_account_name: Some(NAME.to_owned()),
            enable_service_links: Some(false),
            topology_spread_constraints: Some(vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "kubernetes.io/hostname".to_owned(),
                when_unsatisfiable: "ScheduleAnyway".to_owned(),
                label_selector: Some(selects()),
                ..TopologySpreadConstraint::default()
            }]),
            termination_grace_period_seconds: Some(TERMINATION_SECONDS),
            security_context: Some(parts::unprivileged()),
            // In memory: keys are in it, for a process that starts again while nobody can be asked.
            volumes: Some(vec![Volume {
                name: STATE_VOLUME.to_owned(),
                empty_dir: Some(EmptyDirVolumeSource {
                    medium: Some("Memory".to_owned()),
                    size_limit: Some(Quantity("16Mi".to_owned())),
                }),
                ..Volume::default()
            }]),
            containers: vec![self.container()],
            ..PodSpec::default()
        }
    }

    fn container(&self) -> Container {
        let port = |name: &str, number: u16, protocol: Option<&str>| ContainerPort {
            name: Some(name.to_owned()),
            container_port: i32::from(number),
            protocol: protocol.map(ToOwned::to_owned),
            ..ContainerPort::default()
        };
        let args = [
            "stowaway",
            "--namespace",
            &self.settings.namespace,
            "--secret-name",
            NAME,
            "--state-dir",
            STATE_DIR,
        ];
        Container {
            name: "stowaway".to_owned(),
            image: Some(self.pods.manager_image.clone()),
            args: Some(args.map(ToOwned::to_owned).into()),
            working_dir: Some(STATE_DIR.to_owned()),
            env: Some(parts::environment()),
            ports: Some(vec![
                port("link", LINK_PORT, None),
                port("carriers", CARRIER_PORT, None),
                port("wireguard", WIREGUARD_PORT, Some("UDP")),
                port("health", STOWAWAY_HEALTH_PORT, None),
            ]),
            resources: Some(resources("20m", "48Mi", "512Mi")),
            security_context: Some(confined()),
            volume_mounts: Some(vec![mount(STATE_VOLUME, STATE_DIR, false)]),
            ..parts::probed()
        }
    }
}

/// The ports of a Service: for links and for WireGuard, and for carriers where it is for the cluster alone.
fn all_ports(node_ports: [Option<i32>; 2], with_carriers: bool) -> Vec<ServicePort> {
    let port = |name: &str, number: u16, protocol: &str, node_port: Option<i32>| ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(number),
        protocol: Some(protocol.to_owned()),
        target_port: Some(IntOrString::Int(i32::from(number))),
        node_port,
        ..ServicePort::default()
    };
    let [link, wireguard] = node_ports;
    let mut ports = vec![port("link", LINK_PORT, "TCP", link)];
    if with_carriers {
        ports.push(port("carriers", CARRIER_PORT, "TCP", None));
    }
    ports.push(port("wireguard", WIREGUARD_PORT, "UDP", wireguard));
    ports
}

fn service(name: &str, type_: &str, ports: Vec<ServicePort>) -> Service {
    Service {
        metadata: metadata(name),
        spec: Some(ServiceSpec {
            type_: Some(type_.to_owned()),
            selector: Some(selector()),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Whoever comes proves who he is; nothing else is listened to.
fn policy() -> NetworkPolicy {
    let port = |number: u16, protocol: &str| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(number))),
        protocol: Some(protocol.to_owned()),
        ..NetworkPolicyPort::default()
    };
    let ports = vec![
        port(LINK_PORT, "TCP"),
        port(CARRIER_PORT, "TCP"),
        port(WIREGUARD_PORT, "UDP"),
        port(STOWAWAY_HEALTH_PORT, "TCP"),
    ];
    NetworkPolicy {
        metadata: metadata(NAME),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selects()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                ports: Some(ports),
                ..NetworkPolicyIngressRule::default()
            }]),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn budget() -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata(NAME),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selects()),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Where a Prometheus that goes by annotations finds the metrics.
fn scraped() -> [(String, String); 3] {
    let port = STOWAWAY_HEALTH_PORT.to_string();
    [("scrape", "true"), ("port", &port), ("path", "/metrics")]
        .map(|(key, value)| (format!("prometheus.io/{key}"), value.to_owned()))
}
