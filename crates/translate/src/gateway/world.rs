//! Everything that decides what gateways do, as it was last read: all objects of Gateway API, what they refer to, and what
//! is seen of the data planes. More than is asked for does no harm, except of the objects whose presence is the question.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_api::{GatewayParameters, HostnameGrant};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::certificates::{Authorities, KeyPair};
use super::kinds::{
    BackendTlsPolicy, ConnectionRoute, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, Object,
    ObjectRef, Spec, TrafficPolicy, Unreadable,
};
use super::picture::Port;
use crate::grants::{Grants, ReferenceGrant};
use crate::holdings::Holdings;
use crate::services::Services;

/// Everything that decides what gateways do. Objects are shared, so that a world is made anew for every change without
/// reading or copying what did not change.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// GatewayClasses, ours and others', by name.
    pub classes: BTreeMap<String, Arc<GatewayClass>>,
    /// Gateways, ours and others'.
    pub gateways: BTreeMap<ObjectRef, Arc<Gateway>>,
    /// ListenerSets.
    pub listener_sets: BTreeMap<ObjectRef, Arc<ListenerSet>>,
    /// HTTPRoutes.
    pub http_routes: BTreeMap<ObjectRef, Arc<HttpRoute>>,
    /// GRPCRoutes.
    pub grpc_routes: BTreeMap<ObjectRef, Arc<GrpcRoute>>,
    /// TLSRoutes.
    pub tls_routes: BTreeMap<ObjectRef, Arc<ConnectionRoute>>,
    /// TCPRoutes.
    pub tcp_routes: BTreeMap<ObjectRef, Arc<ConnectionRoute>>,
    /// UDPRoutes.
    pub udp_routes: BTreeMap<ObjectRef, Arc<ConnectionRoute>>,
    /// ReferenceGrants.
    pub grants: Grants,
    /// What namespaces hold, where hostnames are held.
    pub holdings: Holdings,
    /// BackendTLSPolicies.
    pub policies: BTreeMap<ObjectRef, Arc<BackendTlsPolicy>>,
    /// TrafficPolicies.
    pub traffic_policies: BTreeMap<ObjectRef, Arc<TrafficPolicy>>,
    /// The labels of each namespace.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Services with their EndpointSlices; who may use them is decided here, by the grants.
    pub services: Services,
    /// Secrets with certificates and keys.
    pub secrets: BTreeMap<ObjectRef, Arc<KeyPair>>,
    /// ConfigMaps with certificates of authorities.
    pub config_maps: BTreeMap<ObjectRef, Arc<Authorities>>,
    /// GatewayParameters.
    pub parameters: BTreeMap<ObjectRef, Arc<GatewayParameters>>,
    /// What is seen of the data plane of each Gateway; one that is left out has none yet.
    pub observed: BTreeMap<ObjectRef, Observed>,
}

/// What is seen of the data plane of one Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The addresses under which clients reach it, the best first.
    pub addresses: Vec<Address>,
    /// The ports of the addresses that lead to those of the Gateway, where these are not the same.
    pub node_ports: BTreeMap<Port, u16>,
    /// Addresses of the spec that can't be had, each with the reason.
    pub unusable: BTreeMap<String, String>,
    /// Whether at least one replica serves, whichever plan.
    pub serving: bool,
    /// The newest generation of the Gateway whose plan every replica that serves has; none if one has not said.
    pub running_generation: Option<i64>,
    /// What keeps it from its work, for people.
    pub trouble: Option<String>,
    /// What keeps the newest configuration from every replica, for people: they serve an older one.
    pub stuck: Option<String>,
}

/// An address, in the words of a Gateway's status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// `IPAddress` or `Hostname`.
    pub kind: AddressKind,
    /// The address or the name.
    pub value: String,
}

/// What an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// An IPv4 or IPv6 address.
    Ip,
    /// A name.
    Hostname,
}

impl AddressKind {
    /// As Gateway API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "IPAddress",
            Self::Hostname => "Hostname",
        }
    }

    /// Reads the `type` of an address, which is that of an IP address where it is left out; `None` for others.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("" | "IPAddress") => Some(Self::Ip),
            Some("Hostname") => Some(Self::Hostname),
            Some(_) => None,
        }
    }
}

impl World {
    /// Sorts objects of any kind and version into a world, as files have them; a cache keeps what it has read and fills
    /// the fields itself. What can't be read is told, and of kinds that are asked for it is here in outline; what is of no
    /// matter is left out. Nobody has checked files: a field that a kind of ours does not have is a word that somebody
    /// relies on.
    pub fn read<'a>(
        objects: impl IntoIterator<Item = &'a DynamicObject>,
    ) -> (Self, Vec<(String, Unreadable)>) {
        let mut world = Self::default();
        let mut rest = Rest::default();
        let mut unread = Vec::new();
        for object in objects {
            if let Err(error) = world.sort_in(object, &mut rest) {
                let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
                let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
                unread.push((format!("{kind} {at}"), error));
            }
        }
        world.services = Services::new(rest.services, rest.slices);
        world.grants = rest.grants.into_iter().collect();
        world.holdings = rest.hostname_grants.iter().collect();
        (world, unread)
    }

    fn sort_in(&mut self, object: &DynamicObject, rest: &mut Rest) -> Result<(), Unreadable> {
        let Some(types) = &object.types else {
            return Err(Unreadable("apiVersion and kind are missing".to_owned()));
        };
        let group = types.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
        match (group, types.kind.as_str()) {
            (super::kinds::GROUP, "GatewayClass") => {
                let class: GatewayClass = Object::read(object);
                let unreadable = class.unreadable.clone();
                self.classes.insert(at.name, Arc::new(class));
                return unreadable.map_or(Ok(()), Err);
            }
            (super::kinds::GROUP, "Gateway") => insert(&mut self.gateways, object)?,
            (super::kinds::GROUP, "ListenerSet") => insert(&mut self.listener_sets, object)?,
            (super::kinds::GROUP, "HTTPRoute") => insert(&mut self.http_routes, object)?,
            (super::kinds::GROUP, "GRPCRoute") => insert(&mut self.grpc_routes, object)?,
            (super::kinds::GROUP, "TLSRoute") => insert(&mut self.tls_routes, object)?,
            (super::kinds::GROUP, "TCPRoute") => insert(&mut self.tcp_routes, object)?,
            (super::kinds::GROUP, "UDPRoute") => insert(&mut self.udp_routes, object)?,
            (super::kinds::GROUP, "BackendTLSPolicy") => insert(&mut self.policies, object)?,
            (super::kinds::GROUP, "ReferenceGrant") => {
                rest.grants.push(Arc::new(typed::<ReferenceGrant>(object)?));
            }
            ("", "Namespace") => {
                self.namespaces.insert(at.name, object.labels().clone());
            }
            ("", "Service") => rest.services.push(Arc::new(typed::<Service>(object)?)),
            ("discovery.k8s.io", "EndpointSlice") => {
                rest.slices.push(Arc::new(typed::<EndpointSlice>(object)?));
            }
            ("", "Secret") => {
                self.secrets.insert(at, Arc::new(KeyPair::read(&typed::<Secret>(object)?)));
            }
            ("", "ConfigMap") => {
                self.config_maps.insert(at, Arc::new(Authorities::read(&typed::<ConfigMap>(object)?)));
            }
            (causeway_api::names::GROUP, "HostnameGrant") => {
                rest.hostname_grants.push(typed::<HostnameGrant>(object)?);
            }
            (causeway_api::names::GROUP, "GatewayParameters") => {
                let parameters: GatewayParameters = typed(object)?;
                known_fields(object, &parameters.spec)?;
                self.parameters.insert(at, Arc::new(parameters));
            }
            (causeway_api::names::GROUP, "TrafficPolicy") => {
                let mut policy: TrafficPolicy = Object::read(object);
                if policy.unreadable.is_none()
                    && let Err(unknown) = known_fields(object, &policy.spec)
                {
                    policy.spec = Spec::outline(&object.data["spec"]);
                    policy.unreadable = Some(unknown);
                }
                let unreadable = policy.unreadable.clone();
                self.traffic_policies.insert(at, Arc::new(policy));
                return unreadable.map_or(Ok(()), Err);
            }
            _ => {}
        }
        Ok(())
    }
}

/// What is collected before it is put in order.
#[derive(Default)]
struct Rest {
    services: Vec<Arc<Service>>,
    slices: Vec<Arc<EndpointSlice>>,
    grants: Vec<Arc<ReferenceGrant>>,
    hostname_grants: Vec<HostnameGrant>,
}

fn insert<S: Spec>(
    objects: &mut BTreeMap<ObjectRef, Arc<Object<S>>>,
    object: &DynamicObject,
) -> Result<(), Unreadable> {
    let read = Object::read(object);
    let unreadable = read.unreadable.clone();
    objects.insert(read.meta.at.clone(), Arc::new(read));
    unreadable.map_or(Ok(()), Err)
}

/// Refuses fields of a spec that were not read.
fn known_fields(object: &DynamicObject, read: &impl Serialize) -> Result<(), Unreadable> {
    let read = serde_json::to_value(read).map_err(|error| Unreadable(error.to_string()))?;
    match unknown_field("spec", &object.data["spec"], &read) {
        None => Ok(()),
        Some(path) => Err(Unreadable(format!("{path}: there is no such field: correct its name"))),
    }
}

/// The path of the first field of `written` that is not in `read`.
fn unknown_field(path: &str, written: &Value, read: &Value) -> Option<String> {
    match (written, read) {
        (Value::Object(written), read) => written.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match read.get(name) {
                Some(read) => unknown_field(&path, value, read),
                // Nothing is not said again.
                None if is_nothing(value) => None,
                None => Some(path),
            }
        }),
        (Value::Array(written), Value::Array(read)) => (0..)
            .zip(written.iter().zip(read))
            .find_map(|(place, (written, read))| unknown_field(&format!("{path}[{place}]"), written, read)),
        _ => None,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, Unreadable> {
    let value = serde_json::to_value(object).map_err(|error| Unreadable(error.to_string()))?;
    serde_path_to_error::deserialize(value)
        .map_err(|error| Unreadable(format!("{}: {}", error.path(), error.inner())))
}
