//! What the caches know of a proxy's routes, and of the Services and namespaces around it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use causeway_api::{ProxyServer, RouteKind};
use causeway_base::lock::lock;
use causeway_translate::{
    endpoints,
    proxy::routes::{CONTROLLER_NAME, ParentRef, Route},
    services::{ServiceRef, bare_service, bare_slice},
};
use k8s_openapi::api::{
    core::v1::{Service, ServiceSpec},
    discovery::v1::EndpointSlice,
};
use kube::{ResourceExt, api::DynamicObject};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    framework::{
        children::{Children, typed},
        kinds::{ENDPOINT_SLICE, NAMESPACE, SERVICE, TCP_ROUTE, TLS_ROUTE},
    },
    grants::{Grants, REFERENCE_GRANT},
};

/// A route that was read.
pub(crate) struct ReadRoute {
    /// As the cache has it.
    pub(crate) object: Arc<DynamicObject>,
    /// The part that matters.
    pub(crate) route: Route,
    /// What it names, and what we have said in it that it does.
    parents: Vec<ParentRef>,
}

/// Every route as it was read last. Of thousands few change, and what is the same object in the cache is not read again.
#[derive(Default)]
pub(crate) struct ReadRoutes(Mutex<HashMap<usize, Arc<ReadRoute>>>);

impl ReadRoutes {
    fn read(&self, children: &Children) -> Vec<Arc<ReadRoute>> {
        let mut known = lock(&self.0);
        let mut now = HashMap::with_capacity(known.len());
        for (cache, kind) in [(TLS_ROUTE, RouteKind::Tls), (TCP_ROUTE, RouteKind::Tcp)] {
            for object in children.all(cache) {
                // An object that is known is held, so that no other can be in its place.
                let place = Arc::as_ptr(&object).addr();
                let read = known.remove(&place).or_else(|| {
                    let route = Route::read(kind, &object)?;
                    let parents = parents(&object).collect();
                    Some(Arc::new(ReadRoute { object, route, parents }))
                });
                now.extend(read.map(|read| (place, read)));
            }
        }
        *known = now;
        known.values().cloned().collect()
    }
}

/// What is known of a proxy's surroundings.
pub(crate) struct Observed {
    /// The routes that name it, or did.
    pub(crate) routes: Vec<Arc<ReadRoute>>,
    /// What namespaces grant; none where nobody asks.
    pub(crate) grants: Option<Grants>,
    /// The labels of each namespace.
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    children: Children,
}

impl Observed {
    /// Reads the caches.
    pub(crate) fn read(
        proxy: &ProxyServer,
        routes: &ReadRoutes,
        children: &Children,
        require_grants: bool,
    ) -> Self {
        let mut routes = routes.read(children);
        routes.retain(|read| read.parents.iter().any(|parent| is_of(parent, &read.object, proxy)));
        // The caches are hash maps; the same routes give the same result.
        routes.sort_by(|a, b| {
            let (a, b) = (&a.route, &b.route);
            (a.kind, &a.namespace, &a.name).cmp(&(b.kind, &b.namespace, &b.name))
        });
        let namespace = |object: &Arc<DynamicObject>| (object.name_any(), object.labels().clone());
        Self {
            routes,
            grants: require_grants.then(|| Grants::read(&children.all(REFERENCE_GRANT))),
            namespaces: children.all(NAMESPACE).iter().map(namespace).collect(),
            children: children.clone(),
        }
    }

    /// A Service, as far as a plan needs it.
    pub(crate) fn service(&self, namespace: &str, name: &str) -> Option<Service> {
        let object = self.children.get(SERVICE, namespace, name)?;
        // By reference: there may be thousands.
        let spec = ServiceSpec::deserialize(object.data.get("spec")?).ok()?;
        let service = Service { metadata: object.metadata.clone(), spec: Some(spec), status: None };
        Some(bare_service(&service))
    }

    /// The slices of these Services, by name, as far as a plan needs them.
    pub(crate) fn slices(&self, of: &BTreeSet<ServiceRef>) -> BTreeMap<ServiceRef, Vec<EndpointSlice>> {
        let mut found: BTreeMap<ServiceRef, Vec<EndpointSlice>> = BTreeMap::new();
        if of.is_empty() {
            return found;
        }
        for slice in self.children.all(ENDPOINT_SLICE).iter().filter_map(|object| typed(object)) {
            let slice: EndpointSlice = slice;
            let Some((namespace, name)) = endpoints::service_of(&slice) else { continue };
            let at = ServiceRef { namespace: namespace.to_owned(), name: name.to_owned() };
            if of.contains(&at) {
                found.entry(at).or_default().push(bare_slice(&slice));
            }
        }
        for slices in found.values_mut() {
            slices.sort_by_key(ResourceExt::name_any);
        }
        found
    }
}

/// Whether a route names the proxy, or we have said in it that it does.
pub(crate) fn concerns(route: &DynamicObject, proxy: &ProxyServer) -> bool {
    parents(route).any(|parent| is_of(&parent, route, proxy))
}

/// What a route names, and what we have said in it that it does.
fn parents(route: &DynamicObject) -> impl Iterator<Item = ParentRef> {
    let said = list(route, "/status/parents").iter();
    let said =
        said.filter(|entry| entry["controllerName"] == CONTROLLER_NAME).map(|entry| &entry["parentRef"]);
    let all = list(route, "/spec/parentRefs").iter().chain(said);
    all.filter_map(|parent| ParentRef::deserialize(parent).ok())
}

/// Whether this reference of a route is the proxy.
pub(crate) fn is_of(parent: &ParentRef, route: &DynamicObject, proxy: &ProxyServer) -> bool {
    parent.is(
        route.metadata.namespace.as_deref().unwrap_or_default(),
        proxy.metadata.namespace.as_deref().unwrap_or_default(),
        proxy.metadata.name.as_deref().unwrap_or_default(),
    )
}

/// A list in an object; empty if it is not there.
pub(crate) fn list<'a>(object: &'a DynamicObject, pointer: &str) -> &'a [Value] {
    object.data.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
