//! BackendTLSPolicies: which of them holds for a port of a Service, and what it asks of the Service's certificate. A policy
//! that can't be kept closes the Service: nothing is ever sent in clear text where TLS was asked for.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_ir::{Name, Pattern, SubjectName};

use super::kinds::{BackendTlsPolicy, GROUP, ObjectRef, SubjectAltName};
use super::picture::Bundle;
use super::secrets::{Lookup, Wrong};
use crate::endpoints::{PortRef, Protocol, find_port};
use crate::grants::Users;
use crate::naming::name;
use crate::references::Verdict;
use crate::services::ServiceRef;

/// TLS to a Service.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerTls {
    /// The name to ask for; that of the request if left out.
    pub(super) server_name: Option<Name>,
    /// Names one of which the certificate has.
    pub(super) subject_names: Vec<SubjectName>,
    /// Who is trusted; the system's authorities if left out.
    pub(super) authorities: Option<(Name, Bundle)>,
}

/// A policy, and what is to be said of it by itself.
pub(super) struct Policy<'a> {
    pub(super) object: &'a BackendTlsPolicy,
    pub(super) accepted: Verdict,
    pub(super) resolved: Verdict,
    /// What it asks for; none if it can't be kept.
    tls: Option<Arc<ServerTls>>,
}

/// All policies, by what they are for.
pub(super) struct Policies<'a> {
    /// The oldest first.
    pub(super) all: Vec<Policy<'a>>,
    /// By Service and name of a port; the one that holds first.
    by_target: HashMap<(ServiceRef, Option<String>), Vec<usize>>,
    by_service: HashMap<ServiceRef, Vec<usize>>,
}

/// What holds for a port of a Service.
pub(super) enum Holds {
    /// No policy.
    Nothing,
    /// TLS.
    Tls(Arc<ServerTls>),
    /// A policy that can't be kept.
    Closed(ObjectRef),
}

impl<'a> Policies<'a> {
    /// Reads all policies of a world.
    pub(super) fn of(lookup: &Lookup<'a>) -> Self {
        let mut objects: Vec<&'a BackendTlsPolicy> = lookup.world.policies.values().map(|p| &**p).collect();
        objects.sort_by(|a, b| a.meta.rank().cmp(&b.meta.rank()));
        let all: Vec<Policy<'a>> = objects.into_iter().map(|object| check(object, lookup)).collect();
        let mut by_target: HashMap<_, Vec<usize>> = HashMap::new();
        let mut by_service: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, policy) in all.iter().enumerate() {
            let services = policy.object.spec.target_refs.iter().filter(|target| {
                target.group.is_empty() && (target.kind == "Service" || target.kind.is_empty())
            });
            for target in services {
                let service = ServiceRef {
                    namespace: policy.object.meta.at.namespace.clone(),
                    name: target.name.clone(),
                };
                let of_service = by_service.entry(service.clone()).or_default();
                if of_service.last() != Some(&place) {
                    of_service.push(place);
                }
                by_target.entry((service, target.section_name.clone())).or_default().push(place);
            }
        }
        Self { all, by_target, by_service }
    }

    /// What holds for this port: a policy for the port by its name before one for the whole Service.
    pub(super) fn for_port(&self, service: &ServiceRef, port: Option<&str>) -> Holds {
        if !self.by_service.contains_key(service) {
            return Holds::Nothing;
        }
        let find = |port: Option<&str>| {
            self.by_target.get(&(service.clone(), port.map(str::to_owned))).and_then(|places| places.first())
        };
        let holds = port.and_then(|port| find(Some(port))).or_else(|| find(None));
        match holds.map(|place| &self.all[*place]) {
            None => Holds::Nothing,
            Some(Policy { tls: Some(tls), .. }) => Holds::Tls(Arc::clone(tls)),
            Some(Policy { object, .. }) => Holds::Closed(object.meta.at.clone()),
        }
    }

    /// The policies for a Service, by their places.
    pub(super) fn for_service(&self, service: &ServiceRef) -> &[usize] {
        self.by_service.get(service).map(Vec::as_slice).unwrap_or_default()
    }

    /// What to say of a policy where this Service is used.
    pub(super) fn verdict(&self, place: usize, service: &ServiceRef, lookup: &Lookup<'_>) -> Verdict {
        let policy = &self.all[place];
        let mut lost = None;
        for target in policy.object.spec.target_refs.iter().filter(|target| target.name == service.name) {
            let section = target.section_name.clone();
            if let Some(section) = &section
                && lookup
                    .world
                    .services
                    .get(service)
                    .is_some_and(|found| find_port(found, Protocol::Tcp, PortRef::Name(section)).is_none())
            {
                let message = format!("Service {service} has no port named {section}: correct sectionName");
                lost = lost.or(Some(Verdict::no("TargetNotFound", message)));
                continue;
            }
            match self.by_target.get(&(service.clone(), section)).and_then(|places| places.first()) {
                Some(first) if *first != place => {
                    let message = format!(
                        "BackendTLSPolicy {} is older and holds for Service {service}",
                        self.all[*first].object.meta.at
                    );
                    lost = lost.or(Some(Verdict::no("Conflicted", message)));
                }
                _ => return policy.accepted.clone(),
            }
        }
        lost.unwrap_or_else(|| policy.accepted.clone())
    }
}

fn check<'a>(object: &'a BackendTlsPolicy, lookup: &Lookup<'a>) -> Policy<'a> {
    let validation = &object.spec.validation;
    let users = Users { group: GROUP, kind: "BackendTLSPolicy", namespace: &object.meta.at.namespace };
    let (authorities, wrong) = lookup.authorities(users, &validation.ca_certificate_refs);
    let resolved = match wrong.first() {
        None => Verdict::yes("ResolvedRefs", "all references are good"),
        Some(Wrong::Kind(message)) => Verdict::no("InvalidKind", message),
        Some(wrong) => Verdict::no("InvalidCACertificateRef", wrong.message()),
    };
    let readable = match &object.unreadable {
        None => Ok(()),
        Some(why) => Err(Verdict::no("Invalid", format!("it can't be read: {why}"))),
    };
    let made = readable.and_then(|()| trusted(object, authorities.is_some(), &wrong)).and_then(|()| {
        let server_name = match Pattern::parse(&validation.hostname) {
            Ok(Pattern::Exact(host)) => name(&host),
            Ok(Pattern::Below(_)) => {
                return Err(Verdict::no(
                    "Invalid",
                    "validation.hostname has no wildcard: write a whole name",
                ));
            }
            Err(why) => return Err(Verdict::no("Invalid", format!("validation.hostname: {why}"))),
        };
        let subject_names: Result<_, _> = validation.subject_alt_names.iter().map(subject).collect();
        let subject_names = subject_names.map_err(|why| Verdict::no("Invalid", why))?;
        Ok(ServerTls { server_name: Some(server_name), subject_names, authorities })
    });
    let (tls, accepted) = match made {
        Ok(tls) => (Some(Arc::new(tls)), Verdict::yes("Accepted", "Gateways speak TLS to the targets")),
        Err(verdict) => (None, verdict),
    };
    Policy { object, accepted, resolved, tls }
}

/// Whether anybody is trusted at all.
fn trusted(object: &BackendTlsPolicy, has_authorities: bool, wrong: &[Wrong]) -> Result<(), Verdict> {
    let validation = &object.spec.validation;
    match validation.well_known_ca_certificates.as_deref() {
        None | Some("") if has_authorities => Ok(()),
        Some("System") if validation.ca_certificate_refs.is_empty() => Ok(()),
        None | Some("" | "System") => {
            let why = wrong.first().map_or("the policy names none, or two kinds of them", Wrong::message);
            Err(Verdict::no("NoValidCACertificate", format!("no authority can be had: {why}")))
        }
        Some(other) => Err(Verdict::no(
            "Invalid",
            format!("validation.wellKnownCACertificates {other} is not known here: write System"),
        )),
    }
}

fn subject(written: &SubjectAltName) -> Result<SubjectName, String> {
    let SubjectAltName { kind, hostname, uri } = written;
    match (kind.as_str(), hostname, uri) {
        ("Hostname", Some(host), _) => Pattern::parse(host).map(SubjectName::Host),
        ("URI", _, Some(uri))
            if uri.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) =>
        {
            Ok(SubjectName::Uri(uri.clone()))
        }
        ("URI", _, uri) => Err(format!(
            "`{}` is not a URI: write spiffe://… or the like",
            uri.as_deref().unwrap_or_default()
        )),
        ("Hostname", None, _) => Err("a subjectAltName of type Hostname needs a hostname".to_owned()),
        (other, ..) => {
            Err(format!("subjectAltNames of type {other} are not known here: write Hostname or URI"))
        }
    }
}
