//! What NetworkPolicies say of a target has to hold for what stands in front of it: who may not reach its pods may not reach them by
//! way of the carrier, and who may reaches the carrier; the carrier in turn has to reach them.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_api::names;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

use super::front::{OWNER_KIND, carrier_name, original_name};
use super::world::Near;
use crate::naming::child;

/// The labels of the pods that a Service leads to without a carrier.
fn originals<'a>(
    near: &'a Near,
    selector: &BTreeMap<String, String>,
    templates: impl IntoIterator<Item = &'a BTreeMap<String, String>>,
) -> Vec<&'a BTreeMap<String, String>> {
    let pods = near.pods.values().filter(|pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none());
    let fits = |labels: &&BTreeMap<String, String>| {
        selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    pods.map(|pod| pod.labels()).filter(fits).chain(templates).collect()
}

/// The policies that say who may come to any of these pods.
fn holding<'a>(
    near: &'a Near,
    originals: &[&BTreeMap<String, String>],
) -> Vec<(&'a String, &'a NetworkPolicySpec)> {
    near.policies
        .iter()
        .filter_map(|(name, policy): (_, &Arc<NetworkPolicy>)| Some((name, policy.spec.as_ref()?)))
        .filter(|(_, spec)| is_for_ingress(spec) && originals.iter().any(|labels| selects(spec, labels)))
        .collect()
}

/// A policy that holds for some pods of a Service and not for others: by way of one carrier in front of all of them, who may reach
/// those would reach these.
pub(super) fn of_some<'a>(
    near: &'a Near,
    selector: &BTreeMap<String, String>,
    template: Option<&'a BTreeMap<String, String>>,
) -> Option<&'a String> {
    let originals = originals(near, selector, template);
    let mut holding = holding(near, &originals).into_iter();
    holding.find(|(_, spec)| !originals.iter().all(|labels| selects(spec, labels))).map(|(name, _)| name)
}

/// The policies of a Service's carrier, by name: none where nobody restrains the original pods.
pub(super) fn make(
    near: &Near,
    service: &Service,
    selector: &BTreeMap<String, String>,
    templates: &[BTreeMap<String, String>],
) -> BTreeMap<String, NetworkPolicySpec> {
    let holding = holding(near, &originals(near, selector, templates));
    let (ports, service) = (target_ports(service), &service.name_any());
    let carrier = carrier_name(service);
    let carriers = LabelSelector {
        match_labels: Some(
            [
                (names::LABEL_OWNER_KIND.to_owned(), OWNER_KIND.to_owned()),
                (names::LABEL_OWNER_NAME.to_owned(), carrier.clone()),
            ]
            .into(),
        ),
        ..LabelSelector::default()
    };
    // A carrier sends to the original pods, to the cluster's end and to the API server, whatever others may send to.
    let mut own = NetworkPolicySpec {
        pod_selector: Some(carriers.clone()),
        policy_types: Some(vec!["Egress".to_owned()]),
        egress: Some(vec![NetworkPolicyEgressRule::default()]),
        ..NetworkPolicySpec::default()
    };
    if holding.is_empty() {
        // One that selects nothing else restrains nobody.
        return [(carrier, own)].into();
    }
    own.policy_types = Some(vec!["Ingress".to_owned(), "Egress".to_owned()]);
    own.ingress = Some(holding.iter().flat_map(|(_, spec)| spec.ingress.iter().flatten()).cloned().collect());
    // Pods that nobody restrains stay open to all: a policy for them would shut out everybody but the carrier.
    let of_pods = |held: &NetworkPolicySpec| NetworkPolicySpec {
        pod_selector: Some(both(held.pod_selector.clone().unwrap_or_default(), selector)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![NetworkPolicyIngressRule {
            from: Some(vec![NetworkPolicyPeer {
                pod_selector: Some(carriers.clone()),
                ..NetworkPolicyPeer::default()
            }]),
            ports: Some(ports.clone()),
        }]),
        ..NetworkPolicySpec::default()
    };
    let original = original_name(service);
    let to_pods =
        holding.iter().map(|(name, held)| (child(&format!("{original}-{name}"), ""), of_pods(held)));
    std::iter::once((carrier, own)).chain(to_pods).collect()
}

/// The pods that are selected by a policy and by the Service, too. One of them at least is, so the two have no label in common
/// with different values.
fn both(mut held: LabelSelector, selector: &BTreeMap<String, String>) -> LabelSelector {
    held.match_labels.get_or_insert_default().extend(selector.clone());
    held
}

/// Where the original pods are reached.
fn target_ports(service: &Service) -> Vec<NetworkPolicyPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports
        .map(|port| {
            let target = port.target_port.clone().filter(|target| *target != IntOrString::Int(0));
            NetworkPolicyPort {
                port: Some(target.unwrap_or(IntOrString::Int(port.port))),
                protocol: port.protocol.clone(),
                end_port: None,
            }
        })
        .collect()
}

/// Whether it says who may come; one that says of nothing what it is about does.
fn is_for_ingress(spec: &NetworkPolicySpec) -> bool {
    let types = spec.policy_types.as_deref().unwrap_or_default();
    types.is_empty() || types.iter().any(|one| one == "Ingress")
}

fn selects(spec: &NetworkPolicySpec, labels: &BTreeMap<String, String>) -> bool {
    let selector = Selector::try_from(spec.pod_selector.clone().unwrap_or_default());
    // One that can't be read is taken to hold: it is the safer of the two.
    selector.map_or(true, |selector| selector.matches(labels))
}
