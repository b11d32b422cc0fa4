//! What NetworkPolicies say of a target has to hold for what stands in front of it: who may not reach its pods may not reach them by
//! way of the carrier, and who may reaches the carrier; the carrier in turn has to reach them.

use std::collections::BTreeMap;

use causeway_api::names;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};

use super::front::{OWNER_KIND, carrier_name, original_name};
use super::world::Near;

/// The policies of a Service's carrier, by name: none where nobody restrains the original pods.
pub(super) fn make(
    near: &Near,
    service: &str,
    selector: &BTreeMap<String, String>,
    templates: &[BTreeMap<String, String>],
) -> BTreeMap<String, NetworkPolicySpec> {
    let of_pods = near
        .pods
        .values()
        .map(|pod: &std::sync::Arc<Pod>| pod.labels())
        .filter(|labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
    let originals: Vec<&BTreeMap<String, String>> = of_pods.chain(templates).collect();
    let holding: Vec<&NetworkPolicySpec> = near
        .policies
        .values()
        .filter_map(|policy: &std::sync::Arc<NetworkPolicy>| policy.spec.as_ref())
        .filter(|spec| is_for_ingress(spec) && originals.iter().any(|labels| selects(spec, labels)))
        .collect();
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
    own.ingress = Some(holding.iter().flat_map(|spec| spec.ingress.iter().flatten()).cloned().collect());
    let original = NetworkPolicySpec {
        pod_selector: Some(LabelSelector {
            match_labels: Some(selector.clone()),
            ..LabelSelector::default()
        }),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![NetworkPolicyIngressRule {
            from: Some(vec![NetworkPolicyPeer {
                pod_selector: Some(carriers),
                ..NetworkPolicyPeer::default()
            }]),
            ..NetworkPolicyIngressRule::default()
        }]),
        ..NetworkPolicySpec::default()
    };
    [(carrier, own), (original_name(service), original)].into()
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
