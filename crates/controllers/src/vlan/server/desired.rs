//! The objects that a server should have. Pure: the same object and settings give the same children, and what a running
//! server can follow changes no pod.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use causeway_api::names;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{
            ConfigMap, Container, PersistentVolumeClaim, PersistentVolumeClaimSpec,
            PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec, PodTemplateSpec,
            SecurityContext, Service, ServiceAccount, ServicePort, ServiceSpec, TopologySpreadConstraint,
            Volume, VolumeResourceRequirements,
        },
        networking::v1::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Outline, Server, Settings, Told,
    observe::{MOST_REPLICAS, Observed},
};
use crate::{
    framework::{
        apply::{Wanted, digest},
        children::Children,
        kinds::{
            CONFIG_MAP, DEPLOYMENT, NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET,
            ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT,
        },
    },
    pod_template,
    vlan::{
        accepted,
        access::{OPENSHIFT_CLUSTER_ROLE, bind, rule},
        pod::{
            self as parts, ACCEPTED_DIR, ACCEPTED_VOLUME, STATE_DIR, STATE_VOLUME, confined, made_with,
            mount, resources, scraped, template_hash,
        },
        proxy::desired::deployment_name,
    },
};

const LEASES_DIR: &str = "/var/lib/causeway-leases";
const LEASES_VOLUME: &str = "leases";
/// Room for leases: a log that is written anew, of some hundred bytes for each.
const LEASES_SIZE: &str = "64Mi";
const HEALTH_PORT: u16 = causeway_translate::proxy::HEALTH_PORT;
/// Nothing is waited for at the end.
const TERMINATION_SECONDS: i64 = 10;

/// The name of the pods' account.
pub(crate) fn account_name(server: &str, role: &str) -> String {
    format!("{server}-{role}")
}

/// The children as they should be.
#[derive(Clone, Debug)]
pub(crate) struct Desired {
    service_account: ServiceAccount,
    role: Role,
    role_bindings: Vec<RoleBinding>,
    config_maps: Vec<ConfigMap>,
    claims: Vec<PersistentVolumeClaim>,
    /// One for each address.
    pub(crate) deployments: Vec<Deployment>,
    service: Option<Service>,
    policy: Option<NetworkPolicy>,
    budget: Option<PodDisruptionBudget>,
}

impl Desired {
    /// A cluster may do without some kinds.
    pub(crate) fn leave_out_what_is_not_served(&mut self, children: &Children) {
        self.budget.take_if(|_| children.served(POD_DISRUPTION_BUDGET).is_none());
        self.policy.take_if(|_| children.served(NETWORK_POLICY).is_none());
    }

    /// The children for the applier, and the pods of `checks`, without the Deployments that have to wait.
    pub(crate) fn wanted(&self, held: &[String], checks: &[Pod]) -> Vec<Wanted> {
        let mut wanted =
            vec![Wanted::new(SERVICE_ACCOUNT, &self.service_account), Wanted::new(ROLE, &self.role)];
        wanted.extend(self.role_bindings.iter().map(|binding| Wanted::new(ROLE_BINDING, binding)));
        wanted.extend(self.config_maps.iter().map(|map| Wanted::new(CONFIG_MAP, map)));
        wanted.extend(self.claims.iter().map(|claim| Wanted::new(PERSISTENT_VOLUME_CLAIM, claim)));
        let deployments = self.deployments.iter().filter(|deployment| !held.contains(&deployment.name_any()));
        wanted.extend(deployments.map(|deployment| Wanted::new(DEPLOYMENT, deployment)));
        wanted.extend(self.service.iter().map(|service| Wanted::new(SERVICE, service)));
        wanted.extend(self.policy.iter().map(|policy| Wanted::new(NETWORK_POLICY, policy)));
        wanted.extend(self.budget.iter().map(|budget| Wanted::new(POD_DISRUPTION_BUDGET, budget)));
        wanted.extend(checks.iter().map(|check| Wanted::new(POD, check)));
        wanted
    }
}

/// What an object asks for, by its own name and namespace.
pub(crate) struct Subject<'a, K> {
    name: String,
    namespace: String,
    outline: &'a Outline,
    settings: &'a Settings,
    observed: &'a Observed,
    kind: PhantomData<fn() -> K>,
}

impl<'a, K: Server> Subject<'a, K> {
    /// Of an object without problems.
    pub(crate) fn new(
        object: &K,
        outline: &'a Outline,
        settings: &'a Settings,
        observed: &'a Observed,
    ) -> Self {
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        Self { name, namespace, outline, settings, observed, kind: PhantomData }
    }

    /// Everything; `accepted` is kept for new pods.
    pub(crate) fn desired(&self, told: &Told, accepted: Option<&K>) -> Desired {
        let deployments = self.outline.addresses.iter().enumerate();
        let deployments = deployments.map(|(index, (address, prefix))| {
            self.deployment(index, &address.to_string(), &format!("{address}/{prefix}"))
        });
        Desired {
            service_account: ServiceAccount {
                metadata: self.metadata(self.account()),
                ..ServiceAccount::default()
            },
            role: self.role(),
            role_bindings: self.role_bindings(),
            config_maps: self.config_maps(told, accepted),
            claims: (0..self.replicas(told))
                .filter(|_| self.outline.keeps_leases)
                .map(|index| self.claim(index))
                .collect(),
            deployments: deployments.collect(),
            service: self.outline.service_port.map(|port| self.service(port)),
            policy: Some(self.policy()),
            budget: (self.outline.addresses.len() > 1).then(|| self.budget()),
        }
    }

    /// For how many replicas leases are kept.
    fn replicas(&self, told: &Told) -> usize {
        self.outline.addresses.len().max(told.kept_replicas)
    }

    fn account(&self) -> String {
        account_name(&self.name, K::ROLE)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert(names::LABEL_OWNER_KIND.to_owned(), K::kind(&()).into_owned());
        labels
    }

    /// What finds the pods of this object and of no other.
    fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (names::LABEL_APP.to_owned(), K::APP.to_owned()),
            (names::LABEL_OWNER_NAME.to_owned(), self.name.clone()),
        ])
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta { name: Some(name), labels: Some(self.labels()), ..ObjectMeta::default() }
    }

    /// Its own object and its own ConfigMaps, by name, and nothing else.
    fn role(&self) -> Role {
        let (own, read) = (names::GROUP, ["get", "list", "watch"]);
        let status = format!("{}/status", K::PLURAL);
        let told = names::server_config_map(&self.name, K::ROLE);
        let mut maps = vec![told.as_str()];
        maps.extend(self.outline.reads.iter().map(String::as_str));
        let mut rules = vec![
            rule(own, &[K::PLURAL], &read, &[&self.name]),
            rule(own, &[&status], &["patch"], &[&self.name]),
            rule("", &["configmaps"], &read, &maps),
        ];
        if self.outline.keeps_leases {
            let (names, leases) =
                (names::lease_names_config_map(&self.name), names::leases_config_map(&self.name));
            rules.push(rule("", &["configmaps"], &["patch"], &[&names, &leases]));
        }
        Role { metadata: self.metadata(self.account()), rules: Some(rules) }
    }

    fn role_bindings(&self) -> Vec<RoleBinding> {
        let account = self.account();
        let to = (self.namespace.as_str(), account.as_str());
        let mut bindings = vec![bind(self.metadata(account.clone()), ("Role", &account), to)];
        if self.settings.openshift {
            let metadata = self.metadata(format!("{}-{}-nonroot-scc", self.name, K::ROLE));
            bindings.push(bind(metadata, ("ClusterRole", OPENSHIFT_CLUSTER_ROLE), to));
        }
        bindings
    }

    /// What its pods are told, with the last spec that they took; and where they write their leases and the names of their
    /// clients.
    fn config_maps(&self, told: &Told, accepted: Option<&K>) -> Vec<ConfigMap> {
        let kept = accepted.and_then(accepted::text).map(|text| (names::ACCEPTED_SERVER_FILE, text));
        let entries = told.entries.iter().cloned().chain(kept);
        let mut maps = vec![ConfigMap {
            metadata: self.metadata(names::server_config_map(&self.name, K::ROLE)),
            data: Some(entries.map(|(key, value)| (key.to_owned(), value)).collect()),
            ..ConfigMap::default()
        }];
        if self.outline.keeps_leases {
            // Each pod writes its own entry; those of replicas that are no more are emptied.
            let gone = (self.replicas(told)..MOST_REPLICAS).map(|index| (index + 1).to_string());
            let gone: BTreeMap<_, _> = gone.map(|entry| (entry, String::new())).collect();
            let data = (!gone.is_empty()).then_some(gone);
            let told = [names::lease_names_config_map(&self.name), names::leases_config_map(&self.name)];
            maps.extend(told.map(|name| ConfigMap {
                metadata: self.metadata(name),
                data: data.clone(),
                ..ConfigMap::default()
            }));
        }
        maps
    }

    fn claim_name(&self, index: usize) -> String {
        format!("{}-leases", deployment_name(&account_name(&self.name, K::ROLE), index))
    }

    fn claim(&self, index: usize) -> PersistentVolumeClaim {
        let size = BTreeMap::from([("storage".to_owned(), Quantity(LEASES_SIZE.to_owned()))]);
        PersistentVolumeClaim {
            metadata: self.metadata(self.claim_name(index)),
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                resources: Some(VolumeResourceRequirements { requests: Some(size), limits: None }),
                ..PersistentVolumeClaimSpec::default()
            }),
            ..PersistentVolumeClaim::default()
        }
    }

    fn deployment(&self, index: usize, address: &str, with_prefix: &str) -> Deployment {
        let live = self.observed.deployments.iter().find(|state| state.index == index);
        // While the account is away, that of the pod that runs counts.
        let account = self.observed.account.as_deref().or_else(|| live?.account.as_deref());
        let replica = (names::LABEL_REPLICA.to_owned(), (index + 1).to_string());
        let mut selector = self.selector();
        selector.extend([replica.clone()]);
        let mut labels = self.labels();
        labels.extend([replica, (names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned())]);
        let attachment = self.outline.attachment.as_ref();
        let networks = attachment.map(|at| parts::networks(&at.name, &at.namespace, with_prefix));
        let annotations = networks.into_iter().chain(made_with(account)).chain(scraped()).collect();
        let metadata =
            ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() };
        let mut template = PodTemplateSpec { metadata: Some(metadata), spec: Some(self.pod(index, address)) };
        let of_pods = self.outline.pod_template.clone().unwrap_or_default();
        pod_template::complete(&mut template, &of_pods.over(&self.settings.pod_template));
        let mut metadata = self.metadata(deployment_name(&self.name, index));
        let asked = self.asked_hash(with_prefix, account);
        let asked = (names::ANNOTATION_ASKED_HASH.to_owned(), asked);
        metadata.annotations = Some(template_hash(&template).into_iter().chain([asked]).collect());
        Deployment {
            metadata,
            spec: Some(DeploymentSpec {
                replicas: Some(1),
                // An address, and a file of leases, are one pod's.
                strategy: Some(DeploymentStrategy {
                    type_: Some("Recreate".to_owned()),
                    rolling_update: None,
                }),
                selector: LabelSelector { match_labels: Some(selector), ..LabelSelector::default() },
                template,
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        }
    }

    /// A digest of what of the spec the pod is made of, and of its account: another one is an edit.
    fn asked_hash(&self, address: &str, account: Option<&str>) -> String {
        let Outline { attachment, image, pod_template, raw_sockets, service_port, .. } = self.outline;
        let attachment = attachment.as_ref().map(ToString::to_string);
        let asked = json!({
            "attachment": attachment, "image": image, "podTemplate": pod_template, "rawSockets": raw_sockets,
            "port": service_port, "address": address, "account": account,
        });
        asked.as_object().map(digest).unwrap_or_default()
    }

    fn pod(&self, index: usize, address: &str) -> PodSpec {
        let told = names::server_config_map(&self.name, K::ROLE);
        let mut volumes = vec![parts::scratch(STATE_VOLUME), parts::optional_config(ACCEPTED_VOLUME, told)];
        if self.outline.keeps_leases {
            let claim_name = self.claim_name(index);
            volumes.push(Volume {
                name: LEASES_VOLUME.to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name,
                    read_only: None,
                }),
                ..Volume::default()
            });
        }
        let mut security = parts::unprivileged();
        if self.outline.raw_sockets {
            // A capability is of use to root alone.
            security = PodSecurityContext { run_as_non_root: Some(false), run_as_user: Some(0), ..security };
        }
        PodSpec {
            service_account_name: Some(self.account()),
            enable_service_links: Some(false),
            // Names that nobody here knows are the node's resolvers' to answer, and never those of other pods.
            dns_policy: Some("Default".to_owned()),
            termination_grace_period_seconds: Some(TERMINATION_SECONDS),
            security_context: Some(security),
            topology_spread_constraints: Some(vec![self.spread()]),
            volumes: Some(volumes),
            containers: vec![self.container(index, address)],
            ..PodSpec::default()
        }
    }

    fn container(&self, index: usize, address: &str) -> Container {
        let mut args = vec![K::ROLE.to_owned()];
        let mut flag = |flag: &str, value: &str| args.extend([format!("--{flag}"), value.to_owned()]);
        flag("namespace", &self.namespace);
        flag("server-name", &self.name);
        flag("server-ip", address);
        flag("state-dir", STATE_DIR);
        flag("accepted", &format!("{ACCEPTED_DIR}/{}", names::ACCEPTED_SERVER_FILE));
        let mut mounts =
            vec![mount(STATE_VOLUME, STATE_DIR, false), mount(ACCEPTED_VOLUME, ACCEPTED_DIR, true)];
        if self.outline.keeps_leases {
            flag("replica", &(index + 1).to_string());
            flag("leases", &format!("{LEASES_DIR}/leases"));
            mounts.push(mount(LEASES_VOLUME, LEASES_DIR, false));
        }
        let mut security: SecurityContext = confined();
        if let Some(add) = security.capabilities.as_mut().and_then(|capabilities| capabilities.add.as_mut())
            && self.outline.raw_sockets
        {
            // The leases may be those of a pod that was not root.
            add.extend(["DAC_OVERRIDE", "NET_RAW"].map(str::to_owned));
        }
        let image = self.outline.image.as_ref().unwrap_or(&self.settings.manager_image);
        Container {
            name: K::ROLE.to_owned(),
            image: Some(image.clone()),
            args: Some(args),
            working_dir: Some(STATE_DIR.to_owned()),
            env: Some(parts::environment()),
            ports: Some(vec![parts::health_port()]),
            resources: Some(resources("10m", "32Mi", "256Mi")),
            security_context: Some(security),
            volume_mounts: Some(mounts),
            ..parts::probed()
        }
    }

    /// On the pod network, for the cluster's own resolver to forward to.
    fn service(&self, port: u16) -> Service {
        let ports = ["UDP", "TCP"].map(|protocol| ServicePort {
            name: Some(format!("{}-{}", K::ROLE, protocol.to_ascii_lowercase())),
            port: i32::from(port),
            protocol: Some(protocol.to_owned()),
            target_port: Some(IntOrString::Int(i32::from(port))),
            ..ServicePort::default()
        });
        Service {
            metadata: self.metadata(self.name.clone()),
            spec: Some(ServiceSpec {
                type_: Some("ClusterIP".to_owned()),
                selector: Some(self.selector()),
                ports: Some(ports.to_vec()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    /// What may come in on the pod network: questions, where there is a Service, health and metrics.
    fn policy(&self) -> NetworkPolicy {
        let open = |port: u16, protocol: &str| NetworkPolicyPort {
            port: Some(IntOrString::Int(i32::from(port))),
            protocol: Some(protocol.to_owned()),
            end_port: None,
        };
        let mut ports = vec![open(HEALTH_PORT, "TCP")];
        ports.extend(
            self.outline.service_port.iter().flat_map(|port| [open(*port, "UDP"), open(*port, "TCP")]),
        );
        let pods = LabelSelector { match_labels: Some(self.selector()), ..LabelSelector::default() };
        NetworkPolicy {
            metadata: self.metadata(self.account()),
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(pods),
                policy_types: Some(vec!["Ingress".to_owned()]),
                ingress: Some(vec![NetworkPolicyIngressRule { ports: Some(ports), from: None }]),
                egress: None,
            }),
        }
    }

    /// On nodes of their own as far as there are some: a drained node is still counted as one to be used.
    fn spread(&self) -> TopologySpreadConstraint {
        TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            label_selector: Some(LabelSelector {
                match_labels: Some(self.selector()),
                ..LabelSelector::default()
            }),
            ..TopologySpreadConstraint::default()
        }
    }

    fn budget(&self) -> PodDisruptionBudget {
        PodDisruptionBudget {
            metadata: self.metadata(self.name.clone()),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(LabelSelector {
                    match_labels: Some(self.selector()),
                    ..LabelSelector::default()
                }),
                // A pod that does not serve is not missed.
                unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        }
    }
}
