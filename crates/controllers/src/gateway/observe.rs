//! The world as the caches have it. What is the same object in a cache is not read again: of thousands of routes few change.

use std::{collections::HashMap, sync::Arc};

use causeway_api::{GatewayParameters, HostnameGrant};
use causeway_translate::{
    gateway::{
        World,
        kinds::{
            BackendTlsPolicy, ConnectionRoute, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet,
            Object, ObjectRef, Spec, TrafficPolicy,
        },
    },
    services::Services,
};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{ResourceExt as _, api::DynamicObject};
use serde::de::DeserializeOwned;

use crate::{
    framework::{
        children::{ChildKind, Children},
        kinds::{
            BACKEND_TLS_POLICY, ENDPOINT_SLICE, GATEWAY, GATEWAY_CLASS, GATEWAY_PARAMETERS, GRPC_ROUTE,
            HOSTNAME_GRANT, HTTP_ROUTE, LISTENER_SET, NAMESPACE, SERVICE, TCP_ROUTE, TLS_ROUTE,
            TRAFFIC_POLICY, UDP_ROUTE,
        },
    },
    grants::{Grants, REFERENCE_GRANT},
};

/// Every object as it was read last.
#[derive(Default)]
pub(crate) struct Readings {
    classes: Kept<GatewayClass>,
    gateways: Kept<Gateway>,
    listener_sets: Kept<ListenerSet>,
    http_routes: Kept<HttpRoute>,
    grpc_routes: Kept<GrpcRoute>,
    connection_routes: [Kept<ConnectionRoute>; 3],
    policies: Kept<BackendTlsPolicy>,
    traffic_policies: Kept<TrafficPolicy>,
    parameters: Kept<GatewayParameters>,
    hostname_grants: Kept<HostnameGrant>,
    services: Kept<Service>,
    slices: Kept<EndpointSlice>,
}

impl Readings {
    /// Everything but what is in Secrets and ConfigMaps, and what is seen of data planes.
    pub(crate) fn world(&mut self, children: &Children) -> World {
        let [tls, tcp, udp] = &mut self.connection_routes;
        let classes = self.classes.read(children, GATEWAY_CLASS, object);
        let namespaces = children.all(NAMESPACE);
        World {
            classes: classes.map(|(at, class)| (at.name, class)).collect(),
            gateways: self.gateways.read(children, GATEWAY, object).collect(),
            listener_sets: self.listener_sets.read(children, LISTENER_SET, object).collect(),
            http_routes: self.http_routes.read(children, HTTP_ROUTE, object).collect(),
            grpc_routes: self.grpc_routes.read(children, GRPC_ROUTE, object).collect(),
            tls_routes: tls.read(children, TLS_ROUTE, object).collect(),
            tcp_routes: tcp.read(children, TCP_ROUTE, object).collect(),
            udp_routes: udp.read(children, UDP_ROUTE, object).collect(),
            grants: Grants::read(&children.all(REFERENCE_GRANT)),
            holdings: {
                let grants = self.hostname_grants.read(children, HOSTNAME_GRANT, typed);
                let grants: Vec<Arc<HostnameGrant>> = grants.map(|(_, grant)| grant).collect();
                grants.iter().map(|grant| &**grant).collect()
            },
            policies: self.policies.read(children, BACKEND_TLS_POLICY, object).collect(),
            traffic_policies: self.traffic_policies.read(children, TRAFFIC_POLICY, object).collect(),
            namespaces: namespaces.iter().map(|one| (one.name_any(), one.labels().clone())).collect(),
            services: Services::new(
                self.services.read(children, SERVICE, typed).map(|(_, service)| service),
                self.slices.read(children, ENDPOINT_SLICE, typed).map(|(_, slice)| slice),
            ),
            parameters: self.parameters.read(children, GATEWAY_PARAMETERS, typed).collect(),
            ..World::default()
        }
    }
}

/// Objects of one kind, by their place in memory. They are held, so that no other can be in their place.
struct Kept<T>(HashMap<usize, (Arc<DynamicObject>, Option<Arc<T>>)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Kept<T> {
    fn read(
        &mut self,
        children: &Children,
        kind: ChildKind,
        read: fn(&DynamicObject) -> Read<T>,
    ) -> impl Iterator<Item = (ObjectRef, Arc<T>)> {
        let mut known = std::mem::take(&mut self.0);
        for object in children.all(kind) {
            let place = Arc::as_ptr(&object).addr();
            let entry = known.remove(&place).unwrap_or_else(|| {
                let (content, wrong) = read(&object);
                if let Some(error) = wrong {
                    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                    tracing::warn!(error, "{} {namespace}/{name} can't be read", kind.kind);
                }
                (object, content.map(Arc::new))
            });
            self.0.insert(place, entry);
        }
        self.0.values().filter_map(|(object, content)| {
            let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
            Some((at, Arc::clone(content.as_ref()?)))
        })
    }
}

/// What was read of an object, and why that is not all.
type Read<T> = (Option<T>, Option<String>);

/// An object of Gateway API, if need be in outline.
fn object<S: Spec>(object: &DynamicObject) -> Read<Object<S>> {
    let read = Object::read(object);
    let wrong = read.unreadable.as_ref().map(ToString::to_string);
    (Some(read), wrong)
}

/// An object that is left out if it can't be read.
fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Read<T> {
    match serde_json::to_value(object).and_then(serde_json::from_value) {
        Ok(read) => (Some(read), None),
        Err(error) => (None, Some(error.to_string())),
    }
}
