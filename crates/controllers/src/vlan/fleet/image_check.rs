//! Whether an image can be had before a working pod is given up for it. On an attachment two pods can't hold one address,
//! so the old one must go first; a small pod on its node runs the new images once, and the old one goes when that has
//! worked. So it is with ports of nodes. Pods that share nothing need no such check: the new one is ready before the old
//! one goes.

use causeway_api::names;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{
            Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
            PodSpec, PodTemplateSpec,
        },
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Fleet, PodState,
    rollout::{Rollout, changes, live},
};
use crate::framework::apply::digest;

/// How far a check has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckState {
    /// Name of its pod.
    pub(crate) name: String,
    /// Every image was pulled and has run.
    pub(crate) has_passed: bool,
    /// The pod is over without that, by no fault of the images: a new one tries again.
    pub(crate) is_lost: bool,
    /// What is in its way.
    pub(crate) trouble: Option<String>,
}

/// The checks that are needed before some Deployments are changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// Their pods.
    pub(crate) pods: Vec<Pod>,
    /// What is in the way of an image, in words.
    pub(crate) troubles: Vec<String>,
}

/// The checks for what `rollout` would change now; those Deployments are held until their checks have passed.
pub(crate) fn checks(desired: &[Deployment], observed: &impl Fleet, rollout: &mut Rollout) -> Checks {
    let mut checks = Checks::default();
    for wanted in desired {
        let name = wanted.name_any();
        let Some(state) = live(wanted, observed).filter(|state| state.is_available) else { continue };
        if rollout.held.contains(&name) || !changes(wanted, state) || !gives_up_first(wanted) {
            continue;
        }
        let Some(template) = wanted.spec.as_ref().map(|spec| &spec.template) else { continue };
        let images = images(template);
        if images.iter().all(|image| state.images.contains(image)) {
            continue;
        }
        let on = |pod: &&PodState| pod.index == state.index && !pod.is_leaving;
        let node = observed.pods().iter().find(on).and_then(|pod| pod.node.as_deref());
        let pod = pod(&name, template, node);
        let check = observed.checks().iter().find(|check| check.name == pod.name_any());
        if check.is_some_and(|check| check.has_passed) {
            continue;
        }
        rollout.held.push(name.clone());
        if let Some(trouble) = check.and_then(|check| check.trouble.as_ref()) {
            checks.troubles.push(format!("{name} stays as it is: pod {}: {trouble}", pod.name_any()));
        }
        if check.is_none_or(|check| !check.is_lost) {
            checks.pods.push(pod);
        }
    }
    checks
}

/// Whether the old pod goes before the new one is there: it is not to be replaced, or not before it is gone.
pub(crate) fn gives_up_first(deployment: &Deployment) -> bool {
    let Some(strategy) = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref()) else {
        return false;
    };
    let surge = strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_surge.as_ref());
    strategy.type_.as_deref() == Some("Recreate") || surge == Some(&IntOrString::Int(0))
}

/// The images of a pod's containers.
pub(crate) fn images(template: &PodTemplateSpec) -> Vec<String> {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.clone()).collect()
}

/// The pod that runs the images of a Deployment's pods once, on the node of the one that would be given up.
pub(crate) fn pod(deployment: &str, template: &PodTemplateSpec, node: Option<&str>) -> Pod {
    let of = template.spec.clone().unwrap_or_default();
    let containers = of.containers.into_iter().map(|container| Container {
        // Both programs say their version and end.
        args: Some(vec![if container.name == "envoy" { "--version" } else { "version" }.to_owned()]),
        name: container.name,
        image: container.image,
        command: container.command,
        image_pull_policy: container.image_pull_policy,
        resources: container.resources,
        security_context: container.security_context,
        ..Container::default()
    });
    let spec = PodSpec {
        containers: containers.collect(),
        restart_policy: Some("OnFailure".to_owned()),
        // With the secrets that the account has for pulling, but without its token.
        service_account_name: of.service_account_name,
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(0),
        security_context: of.security_context,
        image_pull_secrets: of.image_pull_secrets,
        node_selector: of.node_selector,
        tolerations: of.tolerations,
        priority_class_name: of.priority_class_name,
        affinity: node.map(only_on),
        ..PodSpec::default()
    };
    let identity = json!({ "spec": spec });
    let hash = identity.as_object().map(digest).unwrap_or_default();
    let labels = template.metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten());
    let mut labels: std::collections::BTreeMap<_, _> =
        labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    // No Service and no Deployment may take it for a proxy.
    labels.insert(names::LABEL_APP.to_owned(), names::APP_IMAGE_CHECK.to_owned());
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("{deployment}-image-{hash}")),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        ..Pod::default()
    }
}

fn only_on(node: &str) -> Affinity {
    let is = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![is]), ..NodeSelectorTerm::default() };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlan::{
        fleet::DeploymentState,
        proxy::{Settings, desired::desired, fixture, observe::Observed},
    };

    fn settings(image: &str) -> Settings {
        Settings {
            engine: causeway_api::Engine::Native,
            manager_image: format!("causeway.dev/causeway:{image}"),
            ..Settings::default()
        }
    }

    fn wanted(image: &str) -> Vec<Deployment> {
        let proxy = fixture::proxy(&json!({}));
        desired(&proxy, &settings(image), None, None, &Observed::default()).deployments
    }

    fn running(image: &str) -> Observed {
        let of = &wanted(image)[0];
        Observed {
            deployments: vec![DeploymentState {
                name: "lab".into(),
                is_available: true,
                template_hash: of.annotations().get(names::ANNOTATION_TEMPLATE_HASH).cloned(),
                images: images(&of.spec.as_ref().unwrap().template),
                ..DeploymentState::default()
            }],
            pods: vec![PodState { name: "lab-x".into(), node: Some("n1".into()), ..PodState::default() }],
            ..Observed::default()
        }
    }

    #[test]
    fn a_working_pod_stays_until_the_next_image_has_run_on_its_node() {
        let look = |observed: &Observed, image: &str| {
            let mut rollout = Rollout::default();
            let checks = checks(&wanted(image), observed, &mut rollout);
            (checks, rollout.held)
        };
        let mut observed = running("1");
        let (none, held) = look(&observed, "1");
        assert!(none.pods.is_empty() && held.is_empty());

        let (first, held) = look(&observed, "2");
        assert_eq!(held, ["lab"]);
        let pod = serde_json::to_value(&first.pods[0]).unwrap();
        assert_eq!(pod["spec"]["containers"][0]["image"], "causeway.dev/causeway:2");
        assert_eq!(pod["spec"]["containers"][0]["args"], json!(["version"]));
        assert!(pod["spec"]["affinity"].to_string().contains("n1"));
        assert_eq!(pod["metadata"]["labels"]["app"], "image-check");

        let name = first.pods[0].name_any();
        let check = CheckState { name, trouble: Some("ErrImagePull".into()), ..CheckState::default() };
        observed.checks = vec![check.clone()];
        let (failing, held) = look(&observed, "2");
        assert_eq!((held.len(), failing.pods.len()), (1, 1), "it goes on trying");
        assert!(failing.troubles[0].contains("lab stays as it is"), "{:?}", failing.troubles);
        observed.checks = vec![CheckState { is_lost: true, ..check.clone() }];
        assert!(look(&observed, "2").0.pods.is_empty(), "it is removed, and then made again");
        observed.checks = vec![CheckState { has_passed: true, trouble: None, ..check }];
        let (passed, held) = look(&observed, "2");
        assert!(passed.pods.is_empty() && held.is_empty());
        assert_eq!(look(&observed, "3").1, ["lab"], "of another image it says nothing");

        observed.deployments[0].is_available = false;
        assert!(look(&observed, "3").1.is_empty(), "what carries nothing is not worth a check");
    }
}
