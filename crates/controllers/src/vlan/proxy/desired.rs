//! The objects that a `ProxyServer` should have. Pure: the same object and settings give the same children, and a change
//! of backends changes no pod.

mod access;
mod pod;

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{Engine, Protocol, ProxyServer, ProxyServerSpec, names};
use causeway_ir::Problem;
use causeway_translate::proxy::bootstrap::{ADMIN_SOCKET, Address, Start, XDS_SOCKET, bootstrap};
use causeway_translate::proxy::references::is_permitted;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Service, ServiceAccount, ServicePort, ServiceSpec},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt;
use serde::Serialize;

use super::{CONFIG_MAP, DEPLOYMENT, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT, Settings};
use crate::{framework::apply::Wanted, grants::Grants};

/// Prefix lengths of addresses that say none.
const DEFAULT_PREFIX_V4: u8 = 24;
const DEFAULT_PREFIX_V6: u8 = 64;
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
    /// One for each address, in the order of the spec.
    pub(crate) deployments: Vec<Deployment>,
    /// In front of all proxies, on the pod network.
    pub(crate) service: Service,
}

impl Desired {
    /// The children for the applier.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let mut wanted = vec![Wanted::new(SERVICE_ACCOUNT, &self.service_account)];
        wanted.extend(self.roles.iter().map(|role| Wanted::new(ROLE, role)));
        wanted.extend(self.role_bindings.iter().map(|binding| Wanted::new(ROLE_BINDING, binding)));
        wanted.extend(self.config_map.iter().map(|map| Wanted::new(CONFIG_MAP, map)));
        wanted.extend(self.deployments.iter().map(|deployment| Wanted::new(DEPLOYMENT, deployment)));
        wanted.push(Wanted::new(SERVICE, &self.service));
        wanted
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
    /// The namespaces of the Services that it may forward to.
    targets: BTreeSet<&'a str>,
    spec: &'a ProxyServerSpec,
    engine: Engine,
    settings: &'a Settings,
}

impl Subject<'_> {
    /// The account, and the Role and RoleBinding beside it.
    fn account(&self) -> String {
        format!("{}-proxy", self.name)
    }

    /// The start configuration's ConfigMap.
    fn bootstrap(&self) -> String {
        format!("{}-proxy-bootstrap", self.name)
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

/// What this object asks for; its spec has no problems. Without `grants` it may forward to every Service.
pub(crate) fn desired(proxy: &ProxyServer, settings: &Settings, grants: Option<&Grants>) -> Desired {
    let spec = &proxy.spec;
    let engine = spec.engine.unwrap_or(settings.engine);
    let subject = Subject {
        name: proxy.name_any(),
        namespace: proxy.namespace().unwrap_or_default(),
        targets: spec
            .backends
            .iter()
            .filter(|backend| is_permitted(proxy, backend, grants))
            .map(|backend| backend.target_namespace.as_str())
            .collect(),
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
            delta: true,
            connection_limit: spec.connection_limit.and_then(|limit| u32::try_from(limit).ok()),
        })
    });
    let config_map = start.as_ref().map(|start| ConfigMap {
        metadata: subject.metadata(subject.bootstrap()),
        data: Some(BTreeMap::from([("bootstrap.json".to_owned(), format!("{start:#}\n"))])),
        ..ConfigMap::default()
    });
    let deployments = addresses(spec)
        .enumerate()
        .map(|(index, address)| pod::deployment(&subject, index, address, start.as_ref()))
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
        deployments,
        service: service(&subject),
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

/// The name of the Deployment for the address at `index`.
pub(crate) fn deployment_name(proxy: &str, index: usize) -> String {
    match index {
        0 => proxy.to_owned(),
        further => format!("{proxy}-{}", further + 1),
    }
}

/// The address of each replica that is asked for, in the order of the spec.
fn addresses(spec: &ProxyServerSpec) -> impl Iterator<Item = &str> {
    let network = &spec.network_config;
    std::iter::once(&network.server_ip)
        .chain(&network.additional_server_ips)
        .map(String::as_str)
        .take(usize::try_from(spec.replicas).unwrap_or(1))
}

/// An address and its prefix length, which is the usual one of its family if it is not written.
fn with_prefix(text: &str) -> String {
    if text.contains('/') {
        return text.to_owned();
    }
    let prefix = if text.contains(':') { DEFAULT_PREFIX_V6 } else { DEFAULT_PREFIX_V4 };
    format!("{text}/{prefix}")
}

fn service(subject: &Subject<'_>) -> Service {
    let spec = subject.spec;
    let ports: BTreeSet<(u16, &str)> =
        spec.backends.iter().map(|backend| (backend.port, transport(backend.protocol))).collect();
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
