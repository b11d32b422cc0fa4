//! The one way from a Service and its EndpointSlices to the endpoints of a plan: which of the Service's ports is meant,
//! which port of a slice belongs to it, and what each endpoint says of itself. Proxies, tunnels and local Services share
//! it, so that one Service means the same servers to all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_ir::Endpoint;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint as SliceEndpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

/// What a port carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Protocol {
    /// Reads the `protocol` of a port, which is TCP where it is left out; `None` for others, such as SCTP.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("" | "TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some(_) => None,
        }
    }

    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// Which port of a Service is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRef<'a> {
    /// The one with this number.
    Number(u16),
    /// The one with this name.
    Name(&'a str),
    /// The first one.
    First,
}

/// The Service's port that is meant, of this protocol.
pub fn find_port<'a>(
    service: &'a Service,
    protocol: Protocol,
    which: PortRef<'_>,
) -> Option<&'a ServicePort> {
    let ports = service.spec.as_ref()?.ports.as_deref()?;
    let is_meant = |port: &&ServicePort| {
        let found = match which {
            PortRef::Number(number) => port.port == i32::from(number),
            PortRef::Name(name) => port.name.as_deref().unwrap_or_default() == name,
            PortRef::First => true,
        };
        found && Protocol::parse(port.protocol.as_deref()) == Some(protocol)
    };
    ports.iter().find(is_meant)
}

/// The namespace and name of the Service that a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let name = slice.labels().get(SERVICE_NAME_LABEL)?;
    Some((slice.metadata.namespace.as_deref().unwrap_or_default(), name))
}

/// The endpoints behind a port of this Service, in the order of their addresses.
///
/// `slices` are those of the Service. A slice's port belongs to the Service's port of the same name and protocol; one
/// without a number leaves the number to the Service. Every family counts; host names do not.
pub fn behind_port<'a>(
    service: &Service,
    port: &ServicePort,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> Vec<Endpoint> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let is_same = |found: &EndpointPort| {
        name(&found.name) == name(&port.name)
            && Protocol::parse(found.protocol.as_deref()) == Protocol::parse(port.protocol.as_deref())
    };
    let target = match port.target_port {
        Some(IntOrString::Int(number)) if number != 0 => number,
        _ => port.port,
    };
    let number = |found: &EndpointPort| is_same(found).then_some(found.port.unwrap_or(target));
    collect(slices, publishes_all(service), number)
}

/// The endpoints that serve this number themselves, whatever the Service calls the port.
pub fn at_number<'a>(
    service: &Service,
    protocol: Protocol,
    number: u16,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> Vec<Endpoint> {
    let is_same = |found: &EndpointPort| {
        found.port == Some(i32::from(number)) && Protocol::parse(found.protocol.as_deref()) == Some(protocol)
    };
    collect(slices, publishes_all(service), |found| found.port.filter(|_| is_same(found)))
}

/// Whether the Service's clients want to know servers that are not ready too.
fn publishes_all(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

/// The endpoints of all slices; `number` says where they serve the wanted port, if a slice's port is that one. An address
/// may be in two slices while it moves from one to the other: it counts once, and the slice that says more good of it is
/// believed.
fn collect<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    publish_all: bool,
    number: impl Fn(&EndpointPort) -> Option<i32>,
) -> Vec<Endpoint> {
    let mut found: BTreeMap<SocketAddr, Endpoint> = BTreeMap::new();
    for slice in slices.into_iter().filter(|slice| slice.address_type != "FQDN") {
        let numbers = slice.ports.iter().flatten().filter_map(&number);
        for port in numbers.filter_map(|number| u16::try_from(number).ok().filter(|port| *port > 0)) {
            for endpoint in &slice.endpoints {
                // Only the first address of an endpoint has a meaning; the API server takes more for history's sake.
                let Some(address) = endpoint.addresses.first().and_then(|text| text.parse::<IpAddr>().ok())
                else {
                    continue;
                };
                let at = SocketAddr::new(address, port);
                let next = endpoint_at(at, endpoint, publish_all);
                let kept = found.entry(at).or_insert_with(|| next.clone());
                if (next.ready, next.serving) > (kept.ready, kept.serving) {
                    *kept = next;
                }
            }
        }
    }
    found.into_values().collect()
}

fn endpoint_at(at: SocketAddr, endpoint: &SliceEndpoint, publish_all: bool) -> Endpoint {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let terminating = conditions.terminating == Some(true);
    // What is not said is good, and who says nothing of serving serves when ready.
    let ready = conditions.ready.unwrap_or(true);
    let serving = conditions.serving.unwrap_or(ready);
    Endpoint {
        ready: publish_all || (ready && !terminating),
        serving: publish_all || serving,
        terminating,
        ..Endpoint::new(at)
    }
}

#[cfg(test)]
mod tests;
