//! Where routes lead: from references to backends to the clusters of a plan. A reference that may not be used or leads
//! nowhere becomes a cluster without endpoints, so that its share of the traffic fails and goes nowhere else.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_ir::tls::UpstreamTls;
use causeway_ir::{Cluster, HttpVersion, Name, Period, Transport};
use k8s_openapi::api::core::v1::Service;

use super::picture::{BackendPort, behind};
use super::policies::{Holds, Policies, ServerTls};
use super::secrets::{Lookup, reference};
use crate::endpoints::{PortRef, Protocol, find_port};
use crate::grants::Users;
use crate::naming::name;
use crate::references::{BackendRef, Verdict, check_backend};
use crate::services::ServiceRef;

/// How long a UDP session lasts without a datagram.
const UDP_IDLE: Period = Period::from_secs(60);
/// The answer where a route leads to what it may not, or to nothing.
pub(super) const INVALID_BACKEND: u16 = 500;

/// What a backend is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Requests.
    Http,
    /// Calls.
    Grpc,
    /// Bytes that the Gateway may put into TLS.
    Bytes,
    /// Bytes that are TLS already.
    Sealed,
    /// Datagrams.
    Datagrams,
}

/// A backend that was looked for.
pub(super) struct Found {
    /// Its cluster.
    pub(super) cluster: Name,
    /// What is wrong with the reference, if anything.
    pub(super) wrong: Option<Verdict>,
    /// The Service, if a policy could be for it.
    pub(super) service: Option<ServiceRef>,
}

/// A cluster without its endpoints.
#[derive(Debug, Clone)]
struct Spec {
    backend: Option<BackendPort>,
    version: HttpVersion,
    tls: Option<Arc<ServerTls>>,
}

/// All backends of all routes, by their clusters.
pub(super) struct Backends<'a> {
    pub(super) lookup: &'a Lookup<'a>,
    policies: &'a Policies<'a>,
    specs: RefCell<BTreeMap<Name, Spec>>,
}

impl<'a> Backends<'a> {
    pub(super) fn new(lookup: &'a Lookup<'a>, policies: &'a Policies<'a>) -> Self {
        Self { lookup, policies, specs: RefCell::default() }
    }

    /// The cluster that a reference of a route leads to.
    pub(super) fn find(&self, users: Users<'_>, backend: &BackendRef, used: Use) -> Found {
        let namespace = backend.namespace.as_deref().unwrap_or(users.namespace);
        let at = ServiceRef { namespace: namespace.to_owned(), name: backend.name.clone() };
        let port = backend.port.unwrap_or_default();
        let protocol = if used == Use::Datagrams { Protocol::Udp } else { Protocol::Tcp };
        let world = self.lookup.world;
        let wrong = check_backend(users, backend, namespace, protocol, Some(&world.grants), || {
            self.lookup.references.borrow_mut().services.insert(at.clone());
            world.services.get(&at).map(Cow::Borrowed)
        });
        let invalid = |verdict: Verdict| {
            let cluster = self.keep(format!("{at}:{port} invalid"), None, HttpVersion::Http1, None);
            Found { cluster, wrong: Some(verdict), service: None }
        };
        if let Some(verdict) = wrong {
            return invalid(verdict);
        }
        let Some(service) = world.services.get(&at) else {
            return invalid(Verdict::no("BackendNotFound", format!("there is no Service {at}")));
        };
        if service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
            let message =
                format!("Service {at} is of type ExternalName and has no endpoints: use one with a selector");
            return invalid(Verdict::no("UnsupportedValue", message));
        }
        let speech = match self.speech(service, &at, port, protocol, used) {
            Ok(speech) => speech,
            Err(verdict) => return invalid(verdict),
        };
        let cluster = match speech {
            Speech::Closed(policy) => {
                let text = format!("{at}:{port} closed by BackendTLSPolicy {policy}");
                self.keep(text, None, HttpVersion::Http1, None)
            }
            Speech::Open { version, tls } => {
                let text = cluster_name(&at, port, used, version, tls.is_some());
                let backend = BackendPort { service: at.clone(), port, protocol };
                self.keep(text, Some(backend), version, tls)
            }
        };
        let service = (used != Use::Sealed && used != Use::Datagrams).then_some(at);
        Found { cluster, wrong: None, service }
    }

    fn speech(
        &self,
        service: &Service,
        at: &ServiceRef,
        number: u16,
        protocol: Protocol,
        used: Use,
    ) -> Result<Speech, Verdict> {
        let port = find_port(service, protocol, PortRef::Number(number));
        let app = port.and_then(|port| port.app_protocol.as_deref()).unwrap_or_default();
        let holds = match used {
            Use::Sealed | Use::Datagrams => Holds::Nothing,
            _ => self.policies.for_port(at, port.and_then(|port| port.name.as_deref())),
        };
        let tls = match holds {
            Holds::Closed(policy) => return Ok(Speech::Closed(policy.to_string())),
            Holds::Tls(tls) => Some(tls),
            Holds::Nothing => None,
        };
        let (version, tls) = match (used, app.to_ascii_lowercase().as_str()) {
            (Use::Bytes | Use::Sealed | Use::Datagrams, _) => (HttpVersion::Http1, tls),
            (Use::Grpc, "https" | "grpcs") => (HttpVersion::Http2, tls.or_else(any_tls)),
            (Use::Grpc, _) | (_, "kubernetes.io/h2c" | "h2c" | "grpc") => (HttpVersion::Http2, tls),
            // A WebSocket begins with a request of HTTP/1.1.
            (_, "kubernetes.io/ws" | "ws") => (HttpVersion::Http1, tls),
            (_, "kubernetes.io/wss" | "wss") => (HttpVersion::Http1, tls.or_else(any_tls)),
            (_, "https") => (HttpVersion::Auto, tls.or_else(any_tls)),
            (_, other) if other.starts_with("kubernetes.io/") => {
                let message =
                    format!("Service {at} has appProtocol {app} at port {number}, which is not known here");
                return Err(Verdict::no("UnsupportedProtocol", message));
            }
            _ if tls.is_some() => (HttpVersion::Auto, tls),
            _ => (HttpVersion::Http1, None),
        };
        Ok(Speech::Open { version, tls })
    }

    fn keep(
        &self,
        text: String,
        backend: Option<BackendPort>,
        version: HttpVersion,
        tls: Option<Arc<ServerTls>>,
    ) -> Name {
        let name = name(&text);
        self.specs.borrow_mut().entry(name.clone()).or_insert(Spec { backend, version, tls });
        name
    }

    /// A cluster as a Gateway with this certificate for backends has it.
    pub(super) fn cluster(&self, name: &Name, certificate: Option<&Name>) -> Option<Made> {
        let specs = self.specs.borrow();
        let Spec { backend, version, tls } = specs.get(name)?;
        let endpoints =
            backend.as_ref().map(|at| behind(at, &self.lookup.world.services)).unwrap_or_default();
        let mut cluster = Cluster::new(name.clone(), endpoints);
        cluster.http_version = *version;
        match backend {
            None => cluster.no_endpoint_status = INVALID_BACKEND,
            Some(at) if at.protocol == Protocol::Udp => cluster.idle_timeout = UDP_IDLE,
            Some(_) => {}
        }
        if let Some(tls) = tls {
            cluster.transport = Transport::Tls(UpstreamTls {
                server_name: tls.server_name.clone(),
                subject_names: tls.subject_names.clone(),
                authorities: tls.authorities.as_ref().map(|(name, _)| reference(name)),
                certificate: certificate.map(reference),
                confirms: false,
            });
        }
        Some(Made { cluster, backend: backend.clone(), tls: tls.clone() })
    }
}

/// A cluster, and what it needs.
pub(super) struct Made {
    pub(super) cluster: Cluster,
    pub(super) backend: Option<BackendPort>,
    pub(super) tls: Option<Arc<ServerTls>>,
}

/// How a backend is spoken to.
enum Speech {
    Open {
        version: HttpVersion,
        tls: Option<Arc<ServerTls>>,
    },
    /// Not at all, because of this policy.
    Closed(String),
}

/// TLS that the Service itself asks for: of the request's host, by the system's authorities.
fn any_tls() -> Option<Arc<ServerTls>> {
    Some(Arc::new(ServerTls::default()))
}

/// Unique for what it tells apart.
fn cluster_name(at: &ServiceRef, port: u16, used: Use, version: HttpVersion, tls: bool) -> String {
    let kind = match (used, version, tls) {
        (Use::Datagrams, ..) => " udp",
        (Use::Bytes, _, true) => " tcp tls",
        (Use::Bytes | Use::Sealed, ..)
        | (_, HttpVersion::Http1 | HttpVersion::Auto | HttpVersion::Same, false) => "",
        (_, HttpVersion::Http1, true) => " h1 tls",
        (_, HttpVersion::Auto | HttpVersion::Same, true) => " tls",
        (_, HttpVersion::Http2, false) => " h2",
        (_, HttpVersion::Http2, true) => " h2 tls",
    };
    format!("{at}:{port}{kind}")
}
