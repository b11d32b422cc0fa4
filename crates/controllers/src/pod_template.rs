//! Puts what a spec and the operator's settings say of pods (`podTemplate`) into a pod template, and finds what may not be
//! said there: by labels and annotations pods are found and attached to networks, which is for Causeway to decide.

use std::collections::BTreeMap;

use causeway_api::{PodTemplate, names};
use causeway_ir::Problem;
use k8s_openapi::{
    api::core::v1::{PodSpec, PodTemplateSpec, ResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Domains of annotations that attach a pod to networks.
const NETWORK_DOMAINS: [&str; 2] = ["k8s.v1.cni.cncf.io", "v1.multus-cni.io"];

/// What is wrong with a `podTemplate` at this path.
pub(crate) fn problems(wanted: &PodTemplate, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |field: String, message: String| {
        problems.push(Problem { path: format!("{path}.{field}"), message });
    };
    let domain = |key: &str| key.split_once('/').map_or(String::new(), |(domain, _)| domain.to_owned());
    for key in wanted.labels.keys() {
        let is_ours = [names::LABEL_APP, names::LABEL_MANAGED_BY].contains(&key.as_str());
        if is_ours || domain(key) == names::GROUP {
            say(format!("labels[{key}]"), "is set by Causeway itself: leave it out".to_owned());
        }
    }
    for key in wanted.annotations.keys() {
        let domain = domain(key);
        if NETWORK_DOMAINS.contains(&domain.as_str()) {
            let message = "attaches pods to networks, which networkConfig does: leave it out";
            say(format!("annotations[{key}]"), message.to_owned());
        } else if domain == names::GROUP {
            say(format!("annotations[{key}]"), "is set by Causeway itself: leave it out".to_owned());
        }
    }
    if let Some(Err(error)) = wanted.affinity.as_ref().map(typed::<k8s_openapi::api::core::v1::Affinity>) {
        say("affinity".to_owned(), format!("is not what a Pod takes: {error}"));
    }
    for (index, constraint) in wanted.topology_spread_constraints.iter().enumerate() {
        if let Err(error) = typed::<k8s_openapi::api::core::v1::TopologySpreadConstraint>(constraint) {
            say(format!("topologySpreadConstraints[{index}]"), format!("is not what a Pod takes: {error}"));
        }
    }
    problems
}

/// Completes a pod template. It has no problems, so what Causeway goes by stays.
pub(crate) fn complete(template: &mut PodTemplateSpec, wanted: &PodTemplate) {
    let metadata = template.metadata.get_or_insert_default();
    extend(&mut metadata.labels, &wanted.labels);
    extend(&mut metadata.annotations, &wanted.annotations);
    let spec = template.spec.get_or_insert_default();
    place(spec, wanted);
    if let Some(resources) = &wanted.resources {
        for container in &mut spec.containers {
            let own = container.resources.get_or_insert_default();
            let ResourceRequirements { limits, requests, .. } = own;
            limits.get_or_insert_default().extend(quantities(&resources.limits));
            requests.get_or_insert_default().extend(quantities(&resources.requests));
        }
    }
}

fn place(spec: &mut PodSpec, wanted: &PodTemplate) {
    if !wanted.image_pull_secrets.is_empty() {
        spec.image_pull_secrets = Some(wanted.image_pull_secrets.clone());
    }
    if !wanted.node_selector.is_empty() {
        spec.node_selector = Some(wanted.node_selector.clone());
    }
    if !wanted.tolerations.is_empty() {
        spec.tolerations = Some(wanted.tolerations.clone());
    }
    if let Some(affinity) = wanted.affinity.as_ref().and_then(|value| typed(value).ok()) {
        spec.affinity = Some(affinity);
    }
    let constraints: Vec<_> =
        wanted.topology_spread_constraints.iter().filter_map(|value| typed(value).ok()).collect();
    if !constraints.is_empty() {
        spec.topology_spread_constraints = Some(constraints);
    }
    if wanted.priority_class_name.is_some() {
        spec.priority_class_name.clone_from(&wanted.priority_class_name);
    }
}

fn extend(own: &mut Option<BTreeMap<String, String>>, wanted: &BTreeMap<String, String>) {
    if wanted.is_empty() {
        return;
    }
    let own = own.get_or_insert_default();
    own.extend(wanted.iter().map(|(key, value)| (key.clone(), value.clone())));
}

fn quantities(wanted: &BTreeMap<String, IntOrString>) -> impl Iterator<Item = (String, Quantity)> + '_ {
    wanted.iter().map(|(name, amount)| {
        let text = match amount {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(text) => text.clone(),
        };
        (name.clone(), Quantity(text))
    })
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(value: Value) -> PodTemplate {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_wanted_is_in_the_pod_and_what_is_ours_stays() {
        let mut template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"app": "proxy-server"}},
            "spec": {"containers": [
                {"name": "envoy", "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "20m"}}},
                {"name": "manager"},
            ]},
        }))
        .unwrap();
        complete(
            &mut template,
            &wanted(json!({
                "labels": {"team": "net"}, "annotations": {"a": "b"},
                "resources": {"limits": {"cpu": 1}, "requests": {"cpu": "50m"}},
                "imagePullSecrets": [{"name": "registry"}], "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"operator": "Exists"}], "priorityClassName": "high",
                "affinity": {"podAntiAffinity": {}},
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            })),
        );
        let value = serde_json::to_value(&template).unwrap();
        assert_eq!(value["metadata"]["labels"], json!({"app": "proxy-server", "team": "net"}));
        assert_eq!(value["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(
            value["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "50m"}})
        );
        assert_eq!(value["spec"]["containers"][1]["resources"]["limits"], json!({"cpu": "1"}));
        for (field, part) in [
            ("imagePullSecrets", json!([{"name": "registry"}])),
            ("nodeSelector", json!({"disk": "ssd"})),
            ("tolerations", json!([{"operator": "Exists"}])),
            ("priorityClassName", json!("high")),
            ("affinity", json!({"podAntiAffinity": {}})),
        ] {
            assert_eq!(value["spec"][field], part, "{field}");
        }
        assert_eq!(value["spec"]["topologySpreadConstraints"][0]["topologyKey"], "zone");
    }

    #[test]
    fn pods_are_found_and_attached_by_causeway_alone() {
        for (fields, path) in [
            (json!({"labels": {"app": "x"}}), "spec.podTemplate.labels[app]"),
            (
                json!({"labels": {"causeway.dev/replica": "2"}}),
                "spec.podTemplate.labels[causeway.dev/replica]",
            ),
            (
                json!({"annotations": {"k8s.v1.cni.cncf.io/networks": "other/vlan"}}),
                "spec.podTemplate.annotations[k8s.v1.cni.cncf.io/networks]",
            ),
            (json!({"affinity": {"nodeAffinity": 5}}), "spec.podTemplate.affinity"),
            (
                json!({"topologySpreadConstraints": [{"maxSkew": "x"}]}),
                "spec.podTemplate.topologySpreadConstraints[0]",
            ),
        ] {
            let problems = problems(&wanted(fields), "spec.podTemplate");
            assert_eq!(problems.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), [path]);
        }
        let fine = json!({"labels": {"team": "x"}, "annotations": {"prometheus.io/scrape": "true"}});
        assert_eq!(problems(&wanted(fine), "spec.podTemplate"), []);
    }
}
