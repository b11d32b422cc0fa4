//! What the pods of an object are given besides what their work needs: one type for every kind that makes pods, and for the
//! operator's own defaults. What Kubernetes alone understands is passed on as it is written.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{LocalObjectReference, Toleration},
    apimachinery::pkg::util::intstr::IntOrString,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the pods of an object are given.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Further labels. Those by which Causeway finds its pods can't be changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::text_map")]
    pub labels: BTreeMap<String, String>,
    /// Further annotations. Networks are attached by networkConfig alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::text_map")]
    pub annotations: BTreeMap<String, String>,
    /// Requests and limits of each container; what is not named stays as it is by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Secrets in the object's namespace to pull images with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::secret_references")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::text_map")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// Which nodes and neighbours are preferred or needed, as in a Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub affinity: Option<Value>,
    /// How pods are spread, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::spread_constraints")]
    pub topology_spread_constraints: Vec<Value>,
    /// PriorityClass of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub priority_class_name: Option<String>,
}

/// What a container asks for and what it may use, by the name of the resource.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// The most that it may use, for example `cpu: 500m` and `memory: 256Mi`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::quantity_map")]
    pub limits: BTreeMap<String, IntOrString>,
    /// What is set aside for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::quantity_map")]
    pub requests: BTreeMap<String, IntOrString>,
}

impl PodTemplate {
    /// This one over `defaults`: entries of maps one by one, all else as a whole.
    #[must_use]
    pub fn over(self, defaults: &Self) -> Self {
        fn merged<V: Clone>(own: BTreeMap<String, V>, defaults: &BTreeMap<String, V>) -> BTreeMap<String, V> {
            let mut all = defaults.clone();
            all.extend(own);
            all
        }
        fn chosen<V: Clone>(own: Vec<V>, defaults: &[V]) -> Vec<V> {
            if own.is_empty() { defaults.to_vec() } else { own }
        }
        let resources = match (self.resources, &defaults.resources) {
            (Some(own), Some(defaults)) => Some(Resources {
                limits: merged(own.limits, &defaults.limits),
                requests: merged(own.requests, &defaults.requests),
            }),
            (own, defaults) => own.or_else(|| defaults.clone()),
        };
        Self {
            labels: merged(self.labels, &defaults.labels),
            annotations: merged(self.annotations, &defaults.annotations),
            resources,
            image_pull_secrets: chosen(self.image_pull_secrets, &defaults.image_pull_secrets),
            node_selector: merged(self.node_selector, &defaults.node_selector),
            tolerations: chosen(self.tolerations, &defaults.tolerations),
            affinity: self.affinity.or_else(|| defaults.affinity.clone()),
            topology_spread_constraints: chosen(
                self.topology_spread_constraints,
                &defaults.topology_spread_constraints,
            ),
            priority_class_name: self.priority_class_name.or_else(|| defaults.priority_class_name.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(value: Value) -> PodTemplate {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_object_has_the_last_word_over_the_operators_defaults() {
        let defaults = template(json!({
            "labels": {"team": "net", "tier": "edge"},
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "priorityClassName": "high",
        }));
        let own = template(json!({
            "labels": {"team": "shop"},
            "resources": {"limits": {"cpu": "250m"}, "requests": {"cpu": "50m"}},
            "nodeSelector": {"disk": "ssd"},
        }));
        assert_eq!(
            own.over(&defaults),
            template(json!({
                "labels": {"team": "shop", "tier": "edge"},
                "resources": {"limits": {"cpu": "250m", "memory": "1Gi"}, "requests": {"cpu": "50m"}},
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "priorityClassName": "high",
            }))
        );
    }
}
