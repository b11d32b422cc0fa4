//! The objects that a `ProxyServer` should have. Pure: the same object and settings give the same children, and what a
//! running proxy can follow changes no pod.

mod access;
mod disruption;
mod pod;

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{Engine, Protocol, ProxyServer, ProxyServerSpec, names};
use causeway_ir::Problem;
use causeway_translate::proxy::bootstrap::{
    ADMIN_SOCKET, ANSWERS_SOCKET, Address, Start, XDS_SOCKET, bootstrap,
};
use causeway_translate::proxy::references::users;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod, Service, ServiceAccount, ServicePort, ServiceSpec},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt;
use serde::Serialize;

pub(super) use self::pod::termination_seconds;
use super::{
    CONFIG_MAP, DEPLOYMENT, POD, POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT,
    Settings, observe::Observed, places::places,
};
use crate::{framework::apply::Wanted, grants::Grants, vlan::accepted};

/// The longest name of a Service, which is the shortest of the children's limits.
const LONGEST_NAME: usize = 63;

/// The children as they should be.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Desired {
    /// Which program carries the traffic.
    pub(crate) engine: Engine,
    /// Whom the proxies report as.
    pub(crate) service_account: ServiceAccount,
    /// What they may do: in their own namespace first, then where Services are that they forward to.
    pub(crate) roles: Vec<Role>,
    /// Bindings of the above, and to OpenShift's constraints.
    pub(crate) role_bindings: Vec<RoleBinding>,
    /// Envoy's start configuration.
    pub(crate) config_map: Option<ConfigMap>,
    /// The last spec that proxies took.
    pub(crate) accepted: Option<ConfigMap>,
    /// One for each address, in the order of the spec.
    pub(crate) deployments: Vec<Deployment>,
    /// In front of all proxies, on the pod network.
    pub(crate) service: Service,
    /// How many pods may be away at a time; for several.
    pub(crate) budget: Option<PodDisruptionBudget>,
}

impl Desired {
    /// The children for the applier, and the pods of `checks`, without the Deployments that have to wait.
    pub(crate) fn wanted(&self, held: &[String], checks: &[Pod]) -> Vec<Wanted> {
        let mut wanted = vec![Wanted::new(SERVICE_ACCOUNT, &self.service_account)];
        wanted.extend(self.roles.iter().map(|role| Wanted::new(ROLE, role)));
        wanted.extend(self.role_bindings.iter().map(|binding| Wanted::new(ROLE_BINDING, binding)));
        let config_maps = self.config_map.iter().chain(&self.accepted);
        wanted.extend(config_maps.map(|map| Wanted::new(CONFIG_MAP, map)));
        let deployments = self.deployments.iter().filter(|deployment| !held.contains(&deployment.name_any()));
        wanted.extend(deployments.map(|deployment| Wanted::new(DEPLOYMENT, deployment)));
        wanted.push(Wanted::new(SERVICE, &self.service));
        wanted.extend(self.budget.iter().map(|budget| Wanted::new(POD_DISRUPTION_BUDGET, budget)));
        wanted.extend(checks.iter().map(|check| Wanted::new(POD, check)));
        wanted
    }

    /// The ports in front, as text.
    pub(crate) fn ports(&self) -> String {
        let ports = self.service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let text = |port: &ServicePort| match port.protocol.as_deref() {
            Some("UDP") => format!("{}/UDP", port.port),
            _ => port.port.to_string(),
        };
        ports.map(text).collect::<Vec<_>>().join(",")
    }

    /// Whether some of it is in another namespace than the owner's.
    pub(crate) fn reaches_out(&self) -> bool {
        self.roles.iter().any(|role| role.metadata.namespace.is_some())
    }
}

/// What a `ProxyServer` asks for, by its own name and namespace.
struct Subject<'a> {
    name: String,
    namespace: String,
    /// The namespaces whose Services it may read: its own if it forwards to one, and those that let it use all of theirs.
    targets: BTreeSet<&'a str>,
    /// Ports that routes are on.
    route_ports: &'a [u16],
    spec: &'a ProxyServerSpec,
    engine: Engine,
    settings: &'a Settings,
}

impl Subject<'_> {
    /// The account, and the Role and RoleBinding beside it.
    fn account(&self) -> String {
        account_name(&self.name)
    }

    /// The start configuration's ConfigMap.
    fn bootstrap(&self) -> String {
        bootstrap_name(&self.name)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (names::LABEL_APP.to_owned(), names::APP_PROXY.to_owned()),
            (names::LABEL_OWNER_KIND.to_owned(), "ProxyServer".to_owned()),
            (names::LABEL_OWNER_NAME.to_owned(), self.name.clone()),
        ])
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta { name: Some(name), labels: Some(self.labels()), ..ObjectMeta::default() }
    }

    /// What finds the pods of this proxy and of no other.
    fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (names::LABEL_APP.to_owned(), names::APP_PROXY.to_owned()),
            (names::LABEL_OWNER_NAME.to_owned(), self.name.clone()),
        ])
    }
}

/// What this object asks for; its spec has no problems. Without `grants` it may forward to every Service. `accepted` is
/// kept for new pods; what was `observed` says where addresses are and which routes there are.
pub(crate) fn desired(
    proxy: &ProxyServer,
    settings: &Settings,
    grants: Option<&Grants>,
    accepted: Option<&ProxyServer>,
    observed: &Observed,
) -> Desired {
    let spec = &proxy.spec;
    let engine = spec.engine.unwrap_or(settings.engine);
    let namespace = proxy.namespace().unwrap_or_default();
    // The status is only a hint: what may be read is decided here.
    let may_read = |there: &&str| {
        **there == namespace || grants.is_none_or(|grants| grants.permit_all(users(&namespace), there))
    };
    let of_backends = spec.backends.iter().map(|backend| backend.target_namespace.as_str());
    let of_routes = observed.supply.namespaces.iter().map(String::as_str);
    let subject = Subject {
        name: proxy.name_any(),
        namespace: namespace.clone(),
        targets: of_backends.chain(of_routes).filter(may_read).collect(),
        route_ports: &observed.supply.ports,
        spec,
        engine,
        settings,
    };
    let start = (engine == Engine::Envoy).then(|| {
        // By their names alone: both containers work in the directory where the sockets are.
        bootstrap(&Start {
            node: &subject.name,
            xds: Address::Unix(XDS_SOCKET.into()),
            admin: Address::Unix(ADMIN_SOCKET.into()),
            answers: Some(Address::Unix(ANSWERS_SOCKET.into())),
            delta: true,
            // Set while it runs, as it changes.
            connection_limit: None,
        })
    });
    let config_map = start.as_ref().map(|start| ConfigMap {
        metadata: subject.metadata(subject.bootstrap()),
        data: Some(BTreeMap::from([("bootstrap.json".to_owned(), format!("{start:#}\n"))])),
        ..ConfigMap::default()
    });
    let deployments = places(spec, observed)
        .into_iter()
        .map(|place| {
            let live = observed.deployments.iter().find(|state| state.index == place.index);
            // While the account is away, that of the pod that runs counts.
            let account = observed.account.as_deref().or_else(|| live?.account.as_deref());
            pod::deployment(&subject, place, start.as_ref(), account)
        })
        .collect();
    Desired {
        engine,
        service_account: ServiceAccount {
            metadata: subject.metadata(subject.account()),
            ..ServiceAccount::default()
        },
        roles: access::roles(&subject),
        role_bindings: access::role_bindings(&subject),
        config_map,
        accepted: accepted.and_then(accepted::text).map(|text| ConfigMap {
            metadata: subject.metadata(names::accepted_config_map(&subject.name)),
            data: Some(BTreeMap::from([(names::ACCEPTED_FILE.to_owned(), text)])),
            ..ConfigMap::default()
        }),
        deployments,
        service: service(&subject),
        budget: disruption::budget(&subject),
    }
}

/// Why this object's children could not have their names.
pub(crate) fn name_problem(name: &str) -> Option<Problem> {
    let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let fits = name.len() <= LONGEST_NAME && is_word && name.starts_with(|c: char| c.is_ascii_lowercase());
    (!fits).then(|| Problem {
        path: "metadata.name".to_owned(),
        message: format!(
            "`{name}` can't be the name of the Service in front of the proxy: use a name of at most {LONGEST_NAME} \
             lower-case letters, digits and hyphens that begins with a letter"
        ),
    })
}

/// The name of the proxies' account.
pub(crate) fn account_name(proxy: &str) -> String {
    format!("{proxy}-proxy")
}

/// The name of the ConfigMap with Envoy's start configuration.
pub(crate) fn bootstrap_name(proxy: &str) -> String {
    format!("{proxy}-proxy-bootstrap")
}

/// The name of the Deployment with this number.
pub(crate) fn deployment_name(proxy: &str, index: usize) -> String {
    match index {
        0 => proxy.to_owned(),
        further => format!("{proxy}-{}", further + 1),
    }
}

fn service(subject: &Subject<'_>) -> Service {
    let spec = subject.spec;
    let of_backends = spec.backends.iter().map(|backend| (backend.port, transport(backend.protocol)));
    let of_routes = subject.route_ports.iter().map(|port| (*port, "TCP"));
    let mut ports: BTreeSet<(u16, &str)> = of_backends.chain(of_routes).collect();
    // A Service needs a port, also before the first route is there.
    if ports.is_empty() {
        ports.insert((spec.port, "TCP"));
    }
    let ports = ports.iter().map(|(port, protocol)| {
        let name = match (*port == spec.port, *protocol) {
            (true, "TCP") => "proxy".to_owned(),
            (_, "TCP") => format!("proxy-{port}"),
            // A port may carry both, and names must differ.
            (_, _) => format!("proxy-{port}-udp"),
        };
        ServicePort {
            name: Some(name),
            port: i32::from(*port),
            protocol: Some((*protocol).to_owned()),
            target_port: Some(IntOrString::Int(i32::from(*port))),
            ..ServicePort::default()
        }
    });
    Service {
        metadata: subject.metadata(subject.name.clone()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(subject.selector()),
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn transport(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp | Protocol::Tls | Protocol::Https => "TCP",
        Protocol::Udp => "UDP",
    }
}

#[cfg(test)]
mod tests;
