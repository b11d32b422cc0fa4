//! The objects of a carrier. Pure.

use std::collections::BTreeMap;

use causeway_api::{GatewayPlan, GatewayPlanSpec, PlanPart, Supply, names};
use causeway_translate::{
    endpoints::Protocol,
    gateway_pod::keys::{ENTRY, Keys},
    intercept::{
        Front, Swap,
        front::{OWNER_KIND, original_name},
        layout::Layout,
        names::taken,
        swap::{ENV_PREFIX, VOLUME_PREFIX, dressed},
    },
};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
            ObjectFieldSelector, PodSpec, PodTemplateSpec, Probe, Secret, Service, ServiceAccount,
            ServiceAccountTokenProjection, ServiceSpec, TopologySpreadConstraint, Volume, VolumeProjection,
        },
        networking::v1::NetworkPolicy,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt as _;

use super::Carrier;
use crate::{
    framework::{
        apply::Wanted,
        children::{ChildKind, Children},
        kinds::{
            DEPLOYMENT, NETWORK_POLICY, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SECRET, SERVICE,
            SERVICE_ACCOUNT, SUPPLY,
        },
    },
    intercepts::settings::Settings,
    planned, pod_template,
    vlan::{
        access::{OPENSHIFT_CLUSTER_ROLE, bind},
        pod::{self as parts, STATE_DIR, STATE_VOLUME, confined, made_with, mount, resources},
        proxy,
    },
};

/// What a pod may take to end: the time in which all nodes hear of it, the drain of its plan, and some seconds.
const TERMINATION_SECONDS: i64 = 45;
/// The annotation of a plan with the uids of the requests that it serves.
pub(crate) const SERVES: &str = "causeway.dev/serves";
/// The annotation of a pod with the uid of the plan that it keeps to.
const PLAN: &str = "causeway.dev/plan";
/// Where a process of a pod finds what it proves itself to the API server with.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A carrier and what it is made by.
pub(crate) struct Subject<'a> {
    pub(crate) carrier: Carrier<'a>,
    pub(crate) settings: &'a Settings,
    pub(crate) pods: &'a proxy::Settings,
}

/// What has to be there before the pods, and the pods.
pub(crate) struct Desired {
    pub(crate) parts: Vec<Supply>,
    secret: Secret,
    pub(crate) service_account: Option<ServiceAccount>,
    role: Role,
    role_bindings: Vec<RoleBinding>,
    /// The Service that finds the original pods, and the one that finds the carrier's.
    services: Vec<Service>,
    pub(crate) deployment: Option<Deployment>,
    budget: Option<PodDisruptionBudget>,
    policies: Vec<NetworkPolicy>,
}

impl Desired {
    /// What has to be there before the plan names it, but for the parts.
    pub(crate) fn foundation(&self, children: &Children) -> Vec<Wanted> {
        let mut wanted = vec![Wanted::new(SECRET, &self.secret), Wanted::new(ROLE, &self.role)];
        wanted.extend(self.service_account.iter().map(|account| Wanted::new(SERVICE_ACCOUNT, account)));
        wanted.extend(self.role_bindings.iter().map(|binding| Wanted::new(ROLE_BINDING, binding)));
        wanted.extend(self.services.iter().map(|service| Wanted::new(SERVICE, service)));
        let has_policies = children.served(NETWORK_POLICY).is_some();
        let policies = self.policies.iter().filter(|_| has_policies);
        wanted.extend(policies.map(|policy| Wanted::new(NETWORK_POLICY, policy)));
        wanted
    }

    /// The kinds and names of the foundation and of the parts.
    pub(crate) fn founded(&self) -> Vec<(ChildKind, String)> {
        let mut names = vec![(SECRET, self.secret.name_any()), (ROLE, self.role.name_any())];
        names.extend(self.service_account.iter().map(|account| (SERVICE_ACCOUNT, account.name_any())));
        names.extend(self.role_bindings.iter().map(|binding| (ROLE_BINDING, binding.name_any())));
        names.extend(self.services.iter().map(|service| (SERVICE, service.name_any())));
        names.extend(self.parts.iter().map(|part| (SUPPLY, part.name_any())));
        names.extend(self.policies.iter().map(|policy| (NETWORK_POLICY, policy.name_any())));
        names
    }

    /// The rest.
    pub(crate) fn rest(&self, children: &Children) -> Vec<Wanted> {
        let has_budgets = children.served(POD_DISRUPTION_BUDGET).is_some();
        let deployment = self.deployment.iter().map(|one| Wanted::new(DEPLOYMENT, one));
        let budget = self.budget.iter().filter(|_| has_budgets);
        deployment.chain(budget.map(|one| Wanted::new(POD_DISRUPTION_BUDGET, one))).collect()
    }

    /// Makes the pods with this account, by its uid.
    pub(crate) fn set_account(&mut self, uid: &str) {
        self.annotate_pods(made_with(Some(uid)));
    }

    /// Makes the pods for this plan, by its uid.
    pub(crate) fn set_plan(&mut self, uid: &str) {
        self.annotate_pods(Some((PLAN.to_owned(), uid.to_owned())));
    }

    fn annotate_pods(&mut self, more: impl IntoIterator<Item = (String, String)>) {
        let template =
            self.deployment.as_mut().and_then(|one| one.spec.as_mut()).map(|spec| &mut spec.template);
        if let Some(metadata) = template.map(|template| template.metadata.get_or_insert_default()) {
            metadata.annotations.get_or_insert_default().extend(more);
        }
    }
}

impl Subject<'_> {
    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert(names::LABEL_APP.to_owned(), names::APP_CARRIER.to_owned());
        labels
    }

    /// What finds the pods of this carrier, whatever its Service selects.
    fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (names::LABEL_OWNER_KIND.to_owned(), OWNER_KIND.to_owned()),
            (names::LABEL_OWNER_NAME.to_owned(), self.carrier.name()),
        ])
    }

    fn selects(&self) -> LabelSelector {
        LabelSelector { match_labels: Some(self.selector()), ..LabelSelector::default() }
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta { name: Some(name.to_owned()), labels: Some(self.labels()), ..ObjectMeta::default() }
    }

    /// The plan, with these parts.
    pub(crate) fn plan(&self, parts: &[PlanPart]) -> GatewayPlan {
        let name = self.carrier.name();
        let serves: Vec<&str> = self.carrier.serves().keys().map(String::as_str).collect();
        let mut metadata = self.metadata(&name);
        metadata.annotations = Some([(SERVES.to_owned(), serves.join(","))].into());
        GatewayPlan {
            spec: GatewayPlanSpec {
                gateway: self.carrier.of().to_string(),
                gateway_generation: self.carrier.version(),
                parts: parts.iter().map(|part| part.digest.clone()).collect(),
                certificates: vec![secret_name(&name)],
            },
            metadata,
            status: None,
        }
    }

    /// Everything but the plan; `sealed` is the original of a Service with its proof.
    pub(crate) fn desired(&self, parts: &[PlanPart], keys: &Keys, sealed: Option<&str>) -> Desired {
        let name = self.carrier.name();
        let secret = Secret {
            metadata: self.metadata(&secret_name(&name)),
            type_: Some("Opaque".to_owned()),
            data: Some(
                keys.texts()
                    .into_iter()
                    .take(1)
                    .map(|text| (ENTRY.to_owned(), ByteString(text.into_bytes())))
                    .collect(),
            ),
            ..Secret::default()
        };
        let account = match self.carrier {
            Carrier::Front(..) => name.clone(),
            Carrier::Swap(_, _, swap) => swap.account.clone(),
        };
        let to = (self.carrier.namespace(), account.as_str());
        let mut role_bindings = vec![bind(self.metadata(&name), ("Role", &name), to)];
        let front = match self.carrier {
            Carrier::Front(_, front) => Some(front),
            Carrier::Swap(..) => None,
        };
        if self.pods.openshift && front.is_some() {
            let metadata = self.metadata(&format!("{name}-nonroot-scc"));
            role_bindings.push(bind(metadata, ("ClusterRole", OPENSHIFT_CLUSTER_ROLE), to));
        }
        Desired {
            parts: planned::supplies(&name, parts),
            role: Role {
                metadata: self.metadata(&name),
                rules: Some(planned::rules(&name, &[secret.name_any()])),
            },
            secret,
            service_account: front
                .map(|_| ServiceAccount { metadata: self.metadata(&name), ..ServiceAccount::default() }),
            role_bindings,
            services: front.map(|front| vec![self.original(front, sealed), self.found()]).unwrap_or_default(),
            deployment: front.map(|front| self.deployment(front)),
            policies: front.map(|front| self.policies(front)).unwrap_or_default(),
            budget: front.filter(|_| self.settings.carrier_replicas > 1).map(|_| self.budget()),
        }
    }

    /// The Service that finds the original pods, so that somebody keeps their endpoints.
    fn original(&self, front: &Front, sealed: Option<&str>) -> Service {
        let Carrier::Front(at, _) = self.carrier else { return Service::default() };
        let mut metadata = self.metadata(&original_name(&at.name));
        metadata.annotations =
            sealed.map(|sealed| [(names::ANNOTATION_ORIGINAL.to_owned(), sealed.to_owned())].into());
        Service {
            metadata,
            spec: Some(ServiceSpec {
                selector: Some(front.selector.clone()),
                ports: Some(front.service_ports.clone()),
                publish_not_ready_addresses: front.publish_not_ready.then_some(true),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    /// The Service that finds the carrier's pods. Nobody asks for it: its endpoints show that whoever keeps endpoints knows the pods,
    /// and so that the Service in front of which they stand can lead to them.
    fn found(&self) -> Service {
        Service {
            metadata: self.metadata(&self.carrier.name()),
            spec: Some(ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                selector: Some(self.selector()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    fn deployment(&self, front: &Front) -> Deployment {
        let name = self.carrier.name();
        let mut labels = self.labels();
        labels.insert(names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned());
        // Last: by these the Service finds its carrier.
        labels.extend(taken(&front.selector, &name));
        let metadata = ObjectMeta {
            labels: Some(labels),
            annotations: Some(scraped(&front.layout).into()),
            ..ObjectMeta::default()
        };
        let mut template = PodTemplateSpec { metadata: Some(metadata), spec: Some(self.pod(&name, front)) };
        pod_template::complete(&mut template, &self.pods.pod_template);
        Deployment {
            metadata: self.metadata(&name),
            spec: Some(DeploymentSpec {
                replicas: Some(self.settings.carrier_replicas),
                strategy: Some(DeploymentStrategy {
                    type_: Some("RollingUpdate".to_owned()),
                    rolling_update: Some(RollingUpdateDeployment {
                        max_surge: Some(IntOrString::Int(1)),
                        max_unavailable: Some(IntOrString::Int(0)),
                    }),
                }),
                selector: self.selects(),
                template,
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        }
    }

    fn pod(&self, name: &str, front: &Front) -> PodSpec {
        let named = front.layout.ports.iter().filter_map(|port| {
            Some(ContainerPort {
                name: Some(port.name.clone()?),
                container_port: i32::from(port.number),
                protocol: (port.protocol == Protocol::Udp).then(|| "UDP".to_owned()),
                ..ContainerPort::default()
            })
        });
        let mut ports: Vec<ContainerPort> = named.collect();
        ports.sort_by(|one, other| one.name.cmp(&other.name));
        ports.dedup();
        let mut own = container(self.carrier.namespace(), name, &front.layout, &self.pods.manager_image);
        own.args.get_or_insert_default().push("--behind-service".to_owned());
        PodSpec {
            service_account_name: Some(name.to_owned()),
            enable_service_links: Some(false),
            topology_spread_constraints: Some(vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "kubernetes.io/hostname".to_owned(),
                when_unsatisfiable: "ScheduleAnyway".to_owned(),
                label_selector: Some(self.selects()),
                ..TopologySpreadConstraint::default()
            }]),
            termination_grace_period_seconds: Some(TERMINATION_SECONDS),
            security_context: Some(parts::unprivileged()),
            volumes: Some(vec![memory(STATE_VOLUME)]),
            containers: vec![Container {
                working_dir: Some(STATE_DIR.to_owned()),
                ports: Some(ports).filter(|ports| !ports.is_empty()),
                resources: Some(resources("20m", "48Mi", "512Mi")),
                security_context: Some(confined()),
                volume_mounts: Some(vec![mount(STATE_VOLUME, STATE_DIR, false)]),
                ..own
            }],
            ..PodSpec::default()
        }
    }

    fn policies(&self, front: &Front) -> Vec<NetworkPolicy> {
        let policies = front.policies.iter();
        policies
            .map(|(name, spec)| NetworkPolicy { metadata: self.metadata(name), spec: Some(spec.clone()) })
            .collect()
    }

    fn budget(&self) -> PodDisruptionBudget {
        PodDisruptionBudget {
            metadata: self.metadata(&self.carrier.name()),
            spec: Some(PodDisruptionBudgetSpec {
                max_unavailable: Some(IntOrString::Int(1)),
                selector: Some(self.selects()),
                unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
                ..PodDisruptionBudgetSpec::default()
            }),
            ..PodDisruptionBudget::default()
        }
    }
}

/// The Secret with a carrier's keys.
pub(super) fn secret_name(carrier: &str) -> String {
    format!("{carrier}-keys")
}

/// A carrier's container, as far as it is the same in a pod of its own and in that of others.
pub(crate) fn container(namespace: &str, name: &str, layout: &Layout, image: &str) -> Container {
    let variable = |name: &str, path: &str| EnvVar {
        name: format!("{ENV_PREFIX}{name}"),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), ..Default::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    let value = |name: &str| format!("$({ENV_PREFIX}{name})");
    let (health, admin) = (layout.health.to_string(), layout.admin.to_string());
    let (pod, address) = (value("POD"), value("ADDRESS"));
    let args = [
        "carrier",
        "--namespace",
        namespace,
        "--plan-name",
        name,
        "--pod-name",
        &pod,
        "--pod-ip",
        &address,
        "--health-port",
        &health,
        "--admin-port",
        &admin,
        "--state-dir",
        STATE_DIR,
    ];
    Container {
        name: "carrier".to_owned(),
        image: Some(image.to_owned()),
        args: Some(args.map(ToOwned::to_owned).into()),
        env: Some(vec![variable("POD", "metadata.name"), variable("ADDRESS", "status.podIPs")]),
        startup_probe: Some(probe("/healthz", layout.health, 1, 60)),
        // On a busy node an answer may take its time; all traffic of the Service hangs on it.
        readiness_probe: Some(probe("/ready", layout.health, 1, 3)),
        liveness_probe: Some(probe("/healthz", layout.health, 10, 6)),
        ..Container::default()
    }
}

fn probe(path: &str, port: u16, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(i32::from(port)),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}

/// A carrier in the place of a container, and the volumes that its pod needs.
pub(crate) fn dress(namespace: &str, name: &str, swap: &Swap, image: &str) -> (Container, Vec<Volume>) {
    let state = format!("{VOLUME_PREFIX}state");
    let token = format!("{VOLUME_PREFIX}token");
    let mut carrier = container(namespace, name, &swap.layout, image);
    carrier.image_pull_policy = Some("IfNotPresent".to_owned());
    // Its pod may be made for other ends.
    carrier.startup_probe = None;
    // Its owner may not want tokens in his pods; a carrier needs one.
    carrier.volume_mounts = Some(vec![mount(&state, STATE_DIR, false), mount(&token, TOKEN_DIR, true)]);
    (dressed(&swap.original, &carrier), vec![memory(&state), token_volume(&token)])
}

/// In memory: the last certificates are in it, for a process that starts again while nobody can be asked.
fn memory(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity("64Mi".to_owned())),
        }),
        ..Volume::default()
    }
}

/// What a pod has by itself, unless its owner does not want that.
fn token_volume(name: &str) -> Volume {
    let sources = serde_json::json!([
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    let mut sources: Vec<VolumeProjection> = serde_json::from_value(sources).unwrap_or_default();
    sources.push(VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            path: "token".to_owned(),
            expiration_seconds: Some(3607),
            ..ServiceAccountTokenProjection::default()
        }),
        ..VolumeProjection::default()
    });
    let projected =
        k8s_openapi::api::core::v1::ProjectedVolumeSource { sources: Some(sources), ..Default::default() };
    Volume { name: name.to_owned(), projected: Some(projected), ..Volume::default() }
}

/// Where a Prometheus that goes by annotations finds the metrics.
fn scraped(layout: &Layout) -> [(String, String); 3] {
    let port = layout.health.to_string();
    [("scrape", "true"), ("port", &port), ("path", "/metrics")]
        .map(|(key, value)| (format!("prometheus.io/{key}"), value.to_owned()))
}
