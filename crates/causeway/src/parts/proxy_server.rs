//! The ProxyServer that a command is about, and what it means at the moment: the Services, endpoints and grants that it
//! names, read from the API server, and the plan that its proxies make of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use causeway_api::ProxyServer;
use causeway_api::conditions::{ConditionType, Reason, find};
use causeway_ir::Problem;
use causeway_translate::grants::ReferenceGrant;
use causeway_translate::proxy::{Bind, Network, Translation, translate, validate};
use causeway_translate::services::Services;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};

use super::object::{self, ObjectArgs};

/// Which proxy.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    /// The proxy, as proxy/NAME.
    #[arg(value_name = "proxy/NAME", value_parser = proxy_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) object: ObjectArgs,
}

/// These commands know one kind, so its name may be left out.
fn proxy_name(text: &str) -> Result<String, String> {
    let bare = (!text.is_empty() && !text.contains('/')).then_some(text);
    let name = object::name_of::<ProxyServer>(text).or(bare);
    name.map(ToOwned::to_owned).ok_or_else(|| "write proxy/NAME".to_owned())
}

/// The Services, slices and grants of the namespaces that backends name, and which of them can't be read.
pub(crate) async fn services(client: &Client, proxy: &ProxyServer) -> (Services, Vec<String>) {
    let namespaces: BTreeSet<&str> =
        proxy.spec.backends.iter().map(|b| b.target_namespace.as_str()).collect();
    let (mut services, mut slices, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    let (needs_grants, mut grants) = (needs_grants(proxy), Vec::<Arc<ReferenceGrant>>::new());
    for namespace in namespaces {
        let all = ListParams::default();
        match Api::<Service>::namespaced(client.clone(), namespace).list(&all).await {
            Ok(list) => services.extend(list.items.into_iter().map(Into::into)),
            Err(error) => {
                unread.push(format!("the Services of namespace {namespace} can't be read: {error}"));
            }
        }
        match Api::<EndpointSlice>::namespaced(client.clone(), namespace).list(&all).await {
            Ok(list) => slices.extend(list.items.into_iter().map(Into::into)),
            Err(error) => {
                unread.push(format!("the EndpointSlices of namespace {namespace} can't be read: {error}"));
            }
        }
        if !needs_grants || proxy.metadata.namespace.as_deref() == Some(namespace) {
            continue;
        }
        match Api::<ReferenceGrant>::namespaced(client.clone(), namespace).list(&all).await {
            Ok(list) => grants.extend(list.items.into_iter().map(Into::into)),
            // A cluster without this kind has none of them.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                unread.push(format!("the ReferenceGrants of namespace {namespace} can't be read: {error}"));
            }
        }
    }
    let services = Services::new(services, slices);
    (if needs_grants { services.granted_by(grants.into_iter().collect()) } else { services }, unread)
}

/// Whether grants count. The operator may have been told that they do not; its condition shows which of the two holds.
fn needs_grants(proxy: &ProxyServer) -> bool {
    let conditions = proxy.status.as_ref().map_or(&[][..], |status| &status.conditions);
    find(conditions, ConditionType::BackendsResolved)
        .is_none_or(|condition| condition.reason == Reason::RefNotPermitted.as_str())
}

/// The object's plan, as if it listened on every address; what is wrong with its spec, if it has no plan.
pub(crate) fn translation(proxy: &ProxyServer, services: &Services) -> Result<Translation, Vec<Problem>> {
    let anywhere = Bind { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), network: Network::Isolated };
    Ok(translate(&validate(proxy)?, &[anywhere], services))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_spellings_of_a_proxy() {
        for text in ["proxy/edge", "proxyserver/edge", "edge"] {
            assert_eq!(proxy_name(text).as_deref(), Ok("edge"), "{text}");
        }
        for text in ["infra/edge", "proxy/", ""] {
            assert!(proxy_name(text).is_err(), "{text}");
        }
    }
}
