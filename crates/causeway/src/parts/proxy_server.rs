//! The ProxyServer that a command is about, and what it means at the moment: the Services, endpoints and grants that it
//! names, read from the API server, and the plan that its proxies make of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::Arc;

use causeway_api::conditions::{ConditionType, Reason, find};
use causeway_api::{ProxyServer, SuppliedRoute, Supply, SupplySpec, names};
use causeway_ir::Problem;
use causeway_translate::grants::ReferenceGrant;
use causeway_translate::proxy::{Bind, Network, Translation, translate, validate};
use causeway_translate::services::Services;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};

use super::refusal::words;

/// Namespaces that are read at a time.
const AT_ONCE: usize = 16;

/// What is said of a backend whose Service can't be read.
pub(crate) const NOT_KNOWN: &str = "not known";

/// What a proxy's plan is made of besides its object.
#[derive(Default)]
pub(crate) struct Surroundings {
    services: Services,
    /// The routes that are attached to it.
    routes: Vec<SuppliedRoute>,
    /// Namespaces whose Services can't be read: of what is there nothing is known.
    hidden: BTreeSet<String>,
}

impl Deref for Surroundings {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}

/// The Services, slices and grants of the namespaces that backends and routes name, and what of them can't be read.
pub(crate) async fn services(client: &Client, proxy: &ProxyServer) -> (Surroundings, Vec<String>) {
    let (supplies, unsupplied) = supplies(client, proxy).await;
    let routes: Vec<SuppliedRoute> = supplies.iter().flat_map(|supply| supply.routes.clone()).collect();
    let supplied: Vec<_> = supplies.into_iter().flat_map(|supply| supply.services).collect();
    let given: BTreeSet<(Option<&str>, Option<&str>)> = supplied
        .iter()
        .map(|s| (s.service.metadata.namespace.as_deref(), s.service.metadata.name.as_deref()))
        .collect();
    let targets = routes.iter().flat_map(|route| &route.targets).filter(|target| {
        !target.refused && !given.contains(&(Some(&target.namespace), Some(&target.service)))
    });
    let of_backends = proxy.spec.backends.iter().map(|backend| backend.target_namespace.as_str());
    let namespaces: BTreeSet<&str> =
        of_backends.chain(targets.map(|target| target.namespace.as_str())).collect();
    let needs_grants = needs_grants(proxy);
    let own = proxy.metadata.namespace.as_deref();
    let read = stream::iter(namespaces)
        .map(|namespace| read(client, namespace, needs_grants && own != Some(namespace)))
        .buffered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    let (mut services, mut slices, mut grants, mut unread) = (Vec::new(), Vec::new(), Vec::new(), unsupplied);
    let mut hidden = BTreeSet::new();
    for supplied in supplied {
        services.push(Arc::new(supplied.service));
        slices.extend(supplied.slices.into_iter().map(Arc::new));
    }
    for namespace in read {
        services.extend(namespace.services.into_iter().map(Into::into));
        slices.extend(namespace.slices.into_iter().map(Into::into));
        grants.extend(namespace.grants.into_iter().map(Arc::new));
        hidden.extend(namespace.hidden);
        unread.extend(namespace.unread);
    }
    let mut services = Services::new(services, slices);
    if needs_grants {
        services = services.granted_by(grants.into_iter().collect());
    }
    (Surroundings { services, routes, hidden }, unread)
}

/// What the operator supplies the proxies with, and why that can't be read.
async fn supplies(client: &Client, proxy: &ProxyServer) -> (Vec<SupplySpec>, Vec<String>) {
    let own = proxy.metadata.namespace.as_deref().unwrap_or_default();
    let name = proxy.metadata.name.as_deref().unwrap_or_default();
    let labels = format!("{}=ProxyServer,{}={name}", names::LABEL_OWNER_KIND, names::LABEL_OWNER_NAME);
    match Api::<Supply>::namespaced(client.clone(), own).list(&ListParams::default().labels(&labels)).await {
        Ok(list) => (list.items.into_iter().map(|supply| supply.spec).collect(), Vec::new()),
        // A cluster without this kind has no operator that would make them.
        Err(kube::Error::Api(status)) if status.code == 404 => (Vec::new(), Vec::new()),
        Err(error) => (Vec::new(), vec![format!("the routes of the proxy can't be read: {}", words(&error))]),
    }
}

/// What a namespace has of interest.
#[derive(Default)]
struct Read {
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
    grants: Vec<ReferenceGrant>,
    /// Its name, if its Services can't be read.
    hidden: Option<String>,
    unread: Vec<String>,
}

async fn read(client: &Client, namespace: &str, with_grants: bool) -> Read {
    let all = ListParams::default();
    let mut read = Read::default();
    match Api::<Service>::namespaced(client.clone(), namespace).list(&all).await {
        Ok(list) => read.services = list.items,
        Err(error) => {
            read.hidden = Some(namespace.to_owned());
            read.unread
                .push(format!("the Services of namespace {namespace} can't be read: {}", words(&error)));
        }
    }
    match Api::<EndpointSlice>::namespaced(client.clone(), namespace).list(&all).await {
        Ok(list) => read.slices = list.items,
        Err(error) => {
            read.hidden = Some(namespace.to_owned());
            let what =
                format!("the EndpointSlices of namespace {namespace} can't be read: {}", words(&error));
            read.unread.push(what);
        }
    }
    if !with_grants {
        return read;
    }
    // The older version is all that some clusters have.
    for version in ["v1", "v1beta1"] {
        let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", version, "ReferenceGrant");
        let resource = ApiResource::from_gvk_with_plural(&kind, "referencegrants");
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
        match api.list(&all).await {
            Ok(list) => {
                read.grants = list.items.into_iter().filter_map(|grant| grant.try_parse().ok()).collect();
                break;
            }
            // A cluster without this kind has none of them.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                let what =
                    format!("the ReferenceGrants of namespace {namespace} can't be read: {}", words(&error));
                read.unread.push(what);
                break;
            }
        }
    }
    read
}

/// Whether grants count. The operator may have been told that they do not; its condition shows which of the two holds.
fn needs_grants(proxy: &ProxyServer) -> bool {
    let conditions = proxy.status.as_ref().map_or(&[][..], |status| &status.conditions);
    find(conditions, ConditionType::BackendsResolved)
        .is_none_or(|condition| condition.reason == Reason::RefNotPermitted.as_str())
}

/// The object's plan, as if it listened on every address; what is wrong with its spec, if it has no plan.
pub(crate) fn translation(
    proxy: &ProxyServer,
    surroundings: &Surroundings,
) -> Result<Translation, Vec<Problem>> {
    let anywhere = Bind { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), network: Network::Isolated };
    let mut translation =
        translate(&validate(proxy)?, &surroundings.routes, &[anywhere], &surroundings.services);
    let hidden = |name: &str| {
        let backend = proxy.spec.backends.iter().find(|backend| backend.name == name)?;
        surroundings.hidden.get(&backend.target_namespace)
    };
    for state in &mut translation.backends {
        // What can't be seen is not missing.
        if let Some(namespace) = hidden(&state.name) {
            state.message =
                Some(format!("{NOT_KNOWN}: you may not read the Services of namespace {namespace}"));
        }
    }
    Ok(translation)
}
