//! An Infra: the way of a client that boots on its network, step by step: an address, each name, each Service by its name
//! through the proxy. What is wrong with a server comes before what a client meets because of it.

mod filter;
mod lease;
mod names;

use std::fmt::Debug;
use std::net::IpAddr;

use anyhow::anyhow;
use causeway_api::{DHCPServer, DNSServer, Infra, ProxyServer, ServerStatus, names as labels};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::core::object::HasStatus;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use self::names::Names;
use super::Examination;
use super::conditions::conditions;
use super::finding::Finding;
use super::proxy::{self, Place};
use super::vantage::Vantage;
use crate::parts::refusal;

pub(super) async fn examine(examination: &Examination<'_>, name: &str) -> anyhow::Result<Vec<Finding>> {
    let found = examination.object.find::<Infra>(&examination.client, name).await?;
    let Some(infra) = found else { return Ok(vec![examination.missing::<Infra>(name)]) };
    let uid = infra.uid().unwrap_or_default();
    let status = infra.status.clone().unwrap_or_default();
    let wanted = infra.spec.infra_components.clone().unwrap_or_default();
    let place = Place::of(&examination.client).await;
    let dhcp = child::<DHCPServer>(examination, &uid).await?;
    let dns = child::<DNSServer>(examination, &uid).await?;
    let proxy = child::<ProxyServer>(examination, &uid).await?;
    let pods_of = async |app: &str, object: Option<String>| match object {
        Some(object) => pods(examination, app, &object).await,
        None => Vec::new(),
    };
    let dns_pods = pods_of(labels::APP_DNS, dns.as_ref().map(ResourceExt::name_any)).await;
    let dhcp_pods = pods_of(labels::APP_DHCP, dhcp.as_ref().map(ResourceExt::name_any)).await;
    let proxy_pods = pods_of(labels::APP_PROXY, proxy.as_ref().map(ResourceExt::name_any)).await;
    let addresses = status.addresses.clone().unwrap_or_default();
    let mut found = Vec::new();
    if examination.probes {
        let servers =
            [(&proxy_pods, &addresses.proxy), (&dns_pods, &addresses.dns), (&dhcp_pods, &addresses.dhcp)];
        match neighbours(&servers) {
            Some((from, to)) => found.extend(filter::examine(&from, to)),
            None => found.push(Finding::unchecked(
                "nothing was tried on the isolated network, not even whether a firewall filters it: that takes root, and the \
                 network namespaces of the machine where `causeway up` runs the pods of this Infra",
            )),
        }
    }
    if wanted.dhcp.as_ref().is_some_and(|dhcp| dhcp.enabled) {
        found.extend(stands(dhcp.as_ref()));
        if let Some(server) = dhcp.as_ref().filter(|_| examination.probes) {
            // From another pod, so that what is tried goes over the network, if there is one.
            let vantage = Vantage::of(proxy_pods.iter().chain(&dns_pods).chain(&dhcp_pods));
            let resolver = addresses.dns.as_deref();
            found.extend(lease::offered(&examination.client, server, resolver, vantage.as_ref()).await);
        }
    }
    if wanted.dns.as_ref().is_some_and(|dns| dns.enabled) {
        found.extend(stands(dns.as_ref()));
        if let Some(server) = dns.as_ref().filter(|_| examination.probes) {
            let vantage = Vantage::of(proxy_pods.iter().chain(&dhcp_pods));
            match Names::of(&examination.client, server).await {
                Ok(names) => found.extend(names.ask(vantage.as_ref(), place == Place::OneMachine).await),
                Err(finding) => found.push(finding),
            }
        }
    }
    if wanted.proxy.as_ref().is_some_and(|proxy| proxy.enabled) {
        match proxy {
            Some(proxy) => {
                let vantage = Vantage::of(dns_pods.iter().chain(&dhcp_pods));
                found.extend(proxy::examine_from(examination, &proxy.name_any(), vantage).await?);
            }
            None => found.push(absent::<ProxyServer>()),
        }
    }
    let generation = infra.metadata.generation;
    found.extend(conditions(&status.conditions, status.observed_generation, generation, &found));
    Ok(found)
}

/// Servers that are on the network here: one to look from, and the address of another.
fn neighbours(servers: &[(&Vec<Pod>, &Option<String>)]) -> Option<(Vantage, Option<IpAddr>)> {
    let mut here = servers.iter().filter_map(|(pods, address)| {
        let address = address.as_deref()?.split('/').next()?.parse().ok()?;
        Some((Vantage::of(*pods)?, address))
    });
    let (from, _) = here.next()?;
    Some((from, here.next().map(|(_, to)| to)))
}

/// A component that nobody has made.
fn absent<K: Resource<DynamicType = ()>>() -> Finding {
    Finding::bad(
        format!("its {} is not there", K::kind(&())),
        "the operator makes it: see whether it runs, and the conditions below",
    )
}

/// How a component stands: one line if it is ready, else what keeps its pods from their work, or what its conditions say.
fn stands<K>(server: Option<&K>) -> Vec<Finding>
where
    K: Resource<DynamicType = ()> + HasStatus<Status: ServerStatus + Clone + Default>,
{
    let Some(server) = server else { return vec![absent::<K>()] };
    let (kind, name, generation) = (K::kind(&()), server.name_any(), server.meta().generation);
    let status = server.status().cloned().unwrap_or_default();
    let (all, observed) = (status.conditions(), status.observed_generation());
    let is_ready = all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if is_ready && observed >= generation {
        return vec![Finding::good(format!("{kind} {name} is ready"))];
    }
    let mut found = vec![Finding::skipped(format!("{kind} {name} is not ready:"))];
    // `Ready` sums the others up.
    let others: Vec<Condition> = all.iter().filter(|condition| condition.type_ != "Ready").cloned().collect();
    let are_well = others.iter().all(|condition| condition.status == "True");
    let pods = status.replicas().iter();
    let in_trouble = pods.filter_map(|pod| Some((&pod.name, pod.trouble.as_ref().or(pod.refused.as_ref())?)));
    found.extend(in_trouble.map(|(pod, why)| Finding::bad(format!("pod {pod} is in trouble"), why.clone())));
    found.extend(conditions(if are_well { all } else { &others }, observed, generation, &found));
    found
}

/// The pods of one of its servers.
async fn pods(examination: &Examination<'_>, app: &str, object: &str) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(examination.client.clone(), &examination.object.namespace);
    let selector = format!("{}={app},{}={object}", labels::LABEL_APP, labels::LABEL_OWNER_NAME);
    // Who may not list pods can't be where their namespaces are either.
    api.list(&ListParams::default().labels(&selector)).await.map(|list| list.items).unwrap_or_default()
}

/// The object that the Infra with this uid owns.
async fn child<K>(examination: &Examination<'_>, uid: &str) -> anyhow::Result<Option<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(examination.client.clone(), &examination.object.namespace);
    let all = api.list(&ListParams::default()).await;
    let all = all.map_err(|error| anyhow!("can't list {}: {}", K::plural(&()), refusal::words(&error)))?;
    let is_its = |object: &K| object.owner_references().iter().any(|owner| owner.uid == uid);
    Ok(all.items.into_iter().find(is_its))
}

#[cfg(test)]
mod tests {
    use causeway_api::{DHCPServerSpec, DHCPServerStatus, ServerReplica};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_pod_says_is_the_cause_of_what_conditions_say() {
        let condition = |kind: &str| {
            let fields = json!({"type": kind, "status": "False", "reason": "R", "message": "pods are replaced",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            serde_json::from_value::<Condition>(fields).unwrap()
        };
        let trouble = Some("net1 has no carrier".to_owned());
        let mut server = DHCPServer::new("lab-dhcp", DHCPServerSpec::default());
        server.metadata.generation = Some(1);
        server.status = Some(DHCPServerStatus {
            observed_generation: Some(1),
            conditions: vec![condition("Ready"), condition("UpToDate")],
            replicas: vec![ServerReplica { name: "p".into(), trouble, ..ServerReplica::default() }],
            ..DHCPServerStatus::default()
        });
        let found = stands(Some(&server));
        let bad: Vec<_> = found.iter().filter(|finding| finding.is_bad()).collect();
        assert_eq!(bad, [&Finding::bad("pod p is in trouble", "net1 has no carrier")], "{found:?}");
    }
}
