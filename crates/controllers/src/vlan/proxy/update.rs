//! What of a spec a proxy's pod was made of: what else changes in it is an update that the operator brings.

use causeway_api::{Engine, ProxyServerSpec};
use serde_json::{Value, json};

use super::desired::termination_seconds;
use crate::framework::apply::digest;

/// Fields of a spec that running pods follow, or that are no matter of theirs.
const FOLLOWED: [&str; 9] = [
    "allowedRoutes",
    "backends",
    "connectionLimit",
    "connectionsPerSource",
    "logLevel",
    "port",
    "ports",
    "replicas",
    "updatePolicy",
];

/// A digest of what of the spec the pod at `address` is made of, and of its account: another one is an edit.
pub(crate) fn asked_hash(
    spec: &ProxyServerSpec,
    engine: Engine,
    address: Option<&str>,
    account: Option<&str>,
) -> String {
    let mut asked = match serde_json::to_value(spec) {
        Ok(Value::Object(asked)) => asked,
        // A spec serialises to a JSON object.
        Ok(_) | Err(_) => serde_json::Map::new(),
    };
    asked.retain(|field, _| !FOLLOWED.contains(&field.as_str()));
    if engine == Engine::Native {
        asked.insert("drainSeconds".to_owned(), json!(termination_seconds(spec.drain_seconds)));
    }
    if let Some(Value::Object(network)) = asked.get_mut("networkConfig") {
        network.remove("additionalServerIPs");
        network.insert("serverIP".to_owned(), json!(address));
    }
    if let Some(account) = account {
        asked.insert("account".to_owned(), json!(account));
    }
    digest(&asked)
}

#[cfg(test)]
mod tests {
    use causeway_api::{ReplicaStatus, names};
    use k8s_openapi::api::apps::v1::Deployment;
    use kube::ResourceExt as _;

    use super::*;
    use crate::vlan::{
        fleet::{DeploymentState, PodState, update::updates},
        proxy::{Settings, desired::desired, fixture, observe::Observed},
    };

    fn deployment(fields: &Value, settings: &Settings) -> Deployment {
        desired(&fixture::proxy(fields), settings, None, None, &Observed::default()).deployments.remove(0)
    }

    fn made(deployment: &Deployment) -> Observed {
        let annotation = |key: &str| deployment.annotations().get(key).cloned();
        Observed {
            deployments: vec![DeploymentState {
                name: "lab".into(),
                is_available: true,
                template_hash: annotation(names::ANNOTATION_TEMPLATE_HASH),
                asked_hash: annotation(names::ANNOTATION_ASKED_HASH),
                ..DeploymentState::default()
            }],
            pods: vec![PodState { name: "lab-x".into(), ..PodState::default() }],
            reports: vec![ReplicaStatus { name: "lab-x".into(), serving: true, ..ReplicaStatus::default() }],
            ..Observed::default()
        }
    }

    #[test]
    fn an_update_is_what_nobody_has_edited() {
        let (old, new) = (
            Settings { manager_image: "causeway.dev/causeway:1".into(), ..Settings::default() },
            Settings { manager_image: "causeway.dev/causeway:2".into(), ..Settings::default() },
        );
        let before = made(&deployment(&json!({}), &old));
        let count = |fields: &Value, settings: &Settings, before: &Observed| {
            updates(&[deployment(fields, settings)], before).len()
        };
        assert_eq!(count(&json!({}), &old, &before), 0);
        assert_eq!(count(&json!({}), &new, &before), 1);
        assert_eq!(count(&json!({"logLevel": "debug", "replicas": 1}), &new, &before), 1);
        assert_eq!(count(&json!({"adminPort": 9999}), &new, &before), 0, "an edit takes what there is");
        let mut idle = before.clone();
        idle.deployments[0].is_available = false;
        assert_eq!(count(&json!({}), &new, &idle), 0, "it carries nothing");
        let mut troubled = before.clone();
        troubled.reports[0].trouble = Some("the port is taken".into());
        assert_eq!(count(&json!({}), &new, &troubled), 0, "neither does this one");
        let mut old_one = before;
        old_one.deployments[0].asked_hash = None;
        assert_eq!(count(&json!({}), &new, &old_one), 1, "made by an operator that did not say");
    }
}
