//! The Services in front of a target: whose traffic can be taken over there, and whose can't.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::names;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

use super::layout::Layout;
use super::picture::Front;
use super::plan::{Draft, Taking};
use super::policies;
use super::target::{Deniers, Found, Port, TargetRef, denies};
use super::world::{Near, World};
use crate::endpoints::Protocol;
use crate::services::ServiceRef;

/// The kind, in labels, of what was made for a carrier.
pub const OWNER_KIND: &str = "Carrier";

/// What was found in front of a target.
#[derive(Debug, Clone, Default)]
pub(super) struct Fronts {
    /// Services that can be taken over, each with the places of its ports that lead to the target's.
    pub(super) taken: BTreeMap<String, Vec<usize>>,
    /// What is not caught, in words.
    pub(super) missed: Vec<String>,
}

impl Fronts {
    /// Why there is nothing to take over.
    pub(super) fn nothing(&self, target: &TargetRef, port: &Port) -> String {
        let why = if self.missed.is_empty() {
            format!("no Service leads to port {} of {target}", port.number)
        } else {
            self.missed.join("; ")
        };
        format!("{why}: create a Service that selects its pods, or use mode: Container")
    }
}

/// Looks for them.
pub(super) fn look(near: &Near, deniers: &Deniers<'_>, found: &Found<'_>, port: &Port) -> Fronts {
    let mut fronts = Fronts::default();
    for (name, service) in before(near, found) {
        let ports: Vec<usize> = ports(service)
            .enumerate()
            .filter(|(_, of_service)| leads(found, of_service, port))
            .map(|(place, _)| place)
            .collect();
        if ports.is_empty() {
            continue;
        }
        // Its carrier would get what is for all of its pods.
        let denier = near.selector(service).and_then(|selector| deniers.behind(selector));
        let denied = denier.map(|denier| {
            format!("leads to {denier} too, which forbids intercepts by its label {}: deny", names::INTERCEPT)
        });
        let of_some =
            near.selector(service).and_then(|selector| policies::of_some(near, selector, found.labels));
        let mixed = of_some.map(|policy| {
            format!(
                "leads to pods that NetworkPolicy {policy} holds for and to others: one carrier before all of them would let \
                 through to these who may reach those alone"
            )
        });
        match obstacle(service).or(denied).or(mixed) {
            Some(why) => fronts.missed.push(format!("Service {name} {why}")),
            None => drop(fronts.taken.insert(name.clone(), ports)),
        }
    }
    fronts
}

/// By which protocols Services lead to a port that no container declares.
pub(super) fn protocols_to(near: &Near, found: &Found<'_>, number: u16) -> BTreeSet<Protocol> {
    let ports = before(near, found).flat_map(|(_, service)| ports(service));
    ports
        .filter_map(|port| {
            let protocol = Protocol::parse(port.protocol.as_deref())?;
            (target(found, port, protocol) == Some(number)).then_some(protocol)
        })
        .collect()
}

/// The Services whose selector fits the pods, but for those that carriers have.
fn before<'a>(
    near: &'a Near,
    found: &Found<'a>,
) -> impl Iterator<Item = (&'a String, &'a Service)> + use<'a> {
    let labels = found.labels;
    near.services.iter().map(|(name, service)| (name, &**service)).filter(move |(_, service)| {
        let is_own = service.labels().get(names::LABEL_OWNER_KIND).is_some_and(|kind| kind == OWNER_KIND);
        let fits = |labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>| {
            selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        let selector = near.selector(service);
        !is_own
            && type_of(service) != "ExternalName"
            && labels.zip(selector).is_some_and(|(labels, selector)| fits(labels, selector))
    })
}

fn ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    service.spec.iter().flat_map(|spec| spec.ports.iter().flatten())
}

fn type_of(service: &Service) -> &str {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP")
}

/// Whether a port of a Service leads to the port that is meant.
fn leads(found: &Found<'_>, of_service: &ServicePort, port: &Port) -> bool {
    port.protocols
        .iter()
        .filter(|protocol| Protocol::parse(of_service.protocol.as_deref()) == Some(**protocol))
        .any(|protocol| target(found, of_service, *protocol) == Some(port.number))
}

fn target(found: &Found<'_>, of_service: &ServicePort, protocol: Protocol) -> Option<u16> {
    match &of_service.target_port {
        None | Some(IntOrString::Int(0)) => u16::try_from(of_service.port).ok(),
        Some(port) => found.number(port, protocol),
    }
}

/// Why a Service can't be taken over, if it can't.
fn obstacle(service: &Service) -> Option<String> {
    let spec = service.spec.as_ref()?;
    if denies(&service.metadata) {
        return Some(format!("forbids intercepts by its label {}: deny", names::INTERCEPT));
    }
    if spec.cluster_ip.as_deref() == Some("None") {
        return Some("is headless: its clients go to pods directly, which is not caught".to_owned());
    }
    let local = |policy: &Option<String>| policy.as_deref() == Some("Local");
    if local(&spec.internal_traffic_policy) {
        return Some(
            "has internalTrafficPolicy: Local, so that a carrier on one node is not reached from others"
                .to_owned(),
        );
    }
    if local(&spec.external_traffic_policy) {
        return Some(
            "has externalTrafficPolicy: Local, so that a carrier on one node is not reached by way of others"
                .to_owned(),
        );
    }
    let odd = ports(service).find(|port| Protocol::parse(port.protocol.as_deref()).is_none())?;
    Some(format!(
        "has a port of {}, which a carrier can't carry",
        odd.protocol.as_deref().unwrap_or_default()
    ))
}

/// The carrier of a Service.
pub(super) fn make(world: &World, at: &ServiceRef, takings: &[(Taking, Vec<usize>)]) -> Option<Front> {
    let near = world.near.get(&at.namespace)?;
    let service = near.services.get(&at.name)?;
    let spec = service.spec.as_ref()?;
    let own_slices = near.slices.get(&at.name).map(Vec::as_slice).unwrap_or_default();
    let layout = Layout::of_service(service, own_slices, takings);
    let original = original_name(&at.name);
    let slices = near.slices.get(&original).map(Vec::as_slice).unwrap_or_default();
    let draft = Draft { world, takings, layout: &layout };
    let twin = near.twins.get(&original);
    let knows_originals = twin.is_some_and(|twin| slices.iter().any(|slice| twin.has(slice)));
    let (plan, deliveries) = draft.of_service(service, slices, twin.and_then(|twin| twin.address));
    let serves = takings.iter().map(|(taking, _)| (taking.uid.clone(), taking.request.clone()));
    let selector = near.selector(service)?.clone();
    let templates: Vec<_> = takings.iter().map(|(taking, _)| taking.labels.clone()).collect();
    Some(Front {
        uid: service.uid()?,
        policies: policies::make(near, service, &selector, &templates),
        selector,
        service_ports: ports(service).map(bare).collect(),
        publish_not_ready: spec.publish_not_ready_addresses == Some(true),
        plan,
        deliveries,
        serves: serves.collect(),
        layout,
        knows_originals,
    })
}

/// A port as the Service of the original pods has it.
fn bare(port: &ServicePort) -> ServicePort {
    ServicePort { node_port: None, ..port.clone() }
}

/// The name of a Service's carrier and of what belongs to it.
pub fn carrier_name(service: &str) -> String {
    crate::naming::child(service, "-carrier")
}

/// The name of the Service that finds the original pods.
pub fn original_name(service: &str) -> String {
    format!("{}-original", carrier_name(service))
}
