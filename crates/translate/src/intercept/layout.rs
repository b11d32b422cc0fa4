//! The ports of a carrier. A Service finds them as it found those of the original pods: by number, or by a name that the
//! carrier's container has to have.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::plan::Taking;
use super::target::Found;
use crate::endpoints::Protocol;
use crate::gateway_pod::{ADMIN_PORT, HEALTH_PORT};

/// The ports of a carrier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where it listens; for a Service, one for each of its ports, in their order.
    pub ports: Vec<LayoutPort>,
    /// Its health and metrics.
    pub health: u16,
    /// Its state, on loopback.
    pub admin: u16,
}

/// A port that a carrier listens on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayoutPort {
    /// Its number.
    pub number: u16,
    /// What it carries.
    pub protocol: Protocol,
    /// What the Service calls it.
    pub name: Option<String>,
}

impl Layout {
    /// In front of a Service.
    pub(super) fn of_service(
        service: &Service,
        slices: &[Arc<EndpointSlice>],
        takings: &[(Taking, Vec<usize>)],
    ) -> Self {
        let all: Vec<&ServicePort> =
            service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).collect();
        let protocol =
            |port: &ServicePort| Protocol::parse(port.protocol.as_deref()).unwrap_or(Protocol::Tcp);
        // Numbers are as the Service says; names get what is left.
        let mut used: BTreeSet<(Protocol, u16)> =
            all.iter().filter_map(|port| Some((protocol(port), by_number(port)?))).collect();
        let mut named: Vec<LayoutPort> = Vec::new();
        let ports = all.iter().enumerate().map(|(place, port)| {
            let protocol = protocol(port);
            if let Some(number) = by_number(port) {
                return LayoutPort { number, protocol, name: None };
            }
            let name = match &port.target_port {
                Some(IntOrString::String(name)) => Some(name.clone()),
                _ => None,
            };
            let same = named.iter().find(|other| other.name == name && other.protocol == protocol);
            if let Some(same) = same {
                return same.clone();
            }
            let taken = takings.iter().find(|(_, places)| places.contains(&place));
            let wanted = taken
                .map(|(taking, _)| taking.port.number)
                .or_else(|| in_slices(slices, port))
                .or_else(|| u16::try_from(port.port).ok())
                .unwrap_or(1);
            let number = free(wanted, |number| used.contains(&(protocol, number)));
            used.insert((protocol, number));
            let made = LayoutPort { number, protocol, name };
            named.push(made.clone());
            made
        });
        let ports: Vec<LayoutPort> = ports.collect();
        Self::around(ports, &BTreeSet::new())
    }

    /// In the place of a container.
    pub(super) fn of_container(found: &Found<'_>, takings: &[Taking]) -> Self {
        let mut ports: Vec<LayoutPort> = takings
            .iter()
            .flat_map(|taking| {
                let number = taking.port.number;
                taking.port.protocols.iter().map(move |protocol| LayoutPort {
                    number,
                    protocol: *protocol,
                    name: None,
                })
            })
            .collect();
        ports.sort();
        ports.dedup();
        let others = found.ports().filter_map(|(_, port)| u16::try_from(port.container_port).ok());
        Self::around(ports, &others.collect())
    }

    /// With ports for itself that nobody else has.
    fn around(ports: Vec<LayoutPort>, others: &BTreeSet<u16>) -> Self {
        let is_used =
            |number: u16| others.contains(&number) || ports.iter().any(|port| port.number == number);
        let health = free(HEALTH_PORT, is_used);
        let admin = free(ADMIN_PORT, |number| number == health || is_used(number));
        Self { ports, health, admin }
    }
}

/// The number that a Service leads to, if it says one.
fn by_number(port: &ServicePort) -> Option<u16> {
    match &port.target_port {
        None | Some(IntOrString::Int(0)) => u16::try_from(port.port).ok(),
        Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
        Some(IntOrString::String(_)) => None,
    }
}

/// The number that a name means to the pods that a Service leads to.
fn in_slices(slices: &[Arc<EndpointSlice>], port: &ServicePort) -> Option<u16> {
    let name = port.name.clone().unwrap_or_default();
    let protocol = Protocol::parse(port.protocol.as_deref());
    let mut ports = slices.iter().flat_map(|slice| slice.ports.iter().flatten());
    let found = ports.find(|found| {
        found.name.clone().unwrap_or_default() == name
            && Protocol::parse(found.protocol.as_deref()) == protocol
    });
    u16::try_from(found?.port?).ok().filter(|number| *number > 0)
}

/// The number, or the next one that nobody has.
fn free(wanted: u16, is_used: impl Fn(u16) -> bool) -> u16 {
    let below = 1..wanted;
    (wanted..=u16::MAX).chain(below).find(|number| !is_used(*number)).unwrap_or(wanted)
}
