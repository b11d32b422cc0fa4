//! `GatewayParameters`: how the Gateways of a class, or one Gateway, are made.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod_template::PodTemplate;
use crate::proxy_server::UpdatePolicy;

/// How Gateways are made. A GatewayClass refers to it for all its Gateways, a Gateway in `spec.infrastructure` for itself
/// alone; what a Gateway's own says counts before what its class's says.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "GatewayParameters",
    plural = "gatewayparameters",
    namespaced,
    status = "GatewayParametersStatus",
    shortname = "gwparams",
    category = "causeway",
    doc = "Says how Gateways of class causeway are made: their Service, their pods.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.serviceType"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Host Ports", type_ = "boolean", json_path = ".spec.hostPorts"),
    printcolumn(name = "Gateways", type_ = "integer", json_path = ".status.gateways"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayParametersSpec {
    /// The type of the Service in front of a Gateway's pods. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_type: Option<GatewayServiceType>,
    /// Which load balancer makes the address of a Service of type LoadBalancer. Left out: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub load_balancer_class: Option<String>,
    /// Whether nodes hand clients only to pods of their own, which keeps the clients' addresses. Left out: to any pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
    /// Listens on the Gateway's ports of the nodes themselves; the addresses of the nodes are then the Gateway's. Left out:
    /// does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ports: Option<bool>,
    /// Pods of a Gateway. Left out: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub replicas: Option<i32>,
    /// Seconds that WebSockets and other streams may still take when a pod ends. Left out: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub drain_seconds: Option<u16>,
    /// The image of the pods. Left out: the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub image: Option<String>,
    /// Whether pods follow the operator's newer images by themselves. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
    /// Where pods send spans of requests. Left out: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<GatewayTraces>,
    /// What pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
}

impl GatewayParametersSpec {
    /// These parameters, with `below` for all that they leave open.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        let Self {
            service_type,
            load_balancer_class,
            external_traffic_policy,
            host_ports,
            replicas,
            drain_seconds,
            image,
            update_policy,
            traces,
            pod_template,
        } = self.clone();
        Self {
            service_type: service_type.or(below.service_type),
            load_balancer_class: load_balancer_class.or_else(|| below.load_balancer_class.clone()),
            external_traffic_policy: external_traffic_policy.or(below.external_traffic_policy),
            host_ports: host_ports.or(below.host_ports),
            replicas: replicas.or(below.replicas),
            drain_seconds: drain_seconds.or(below.drain_seconds),
            image: image.or_else(|| below.image.clone()),
            update_policy: update_policy.or(below.update_policy),
            traces: traces.or_else(|| below.traces.clone()),
            pod_template: match (pod_template, &below.pod_template) {
                (Some(own), Some(below)) => Some(own.over(below)),
                (own, below) => own.or_else(|| below.clone()),
            },
        }
    }
}

/// Where spans of requests go, and of which requests they are.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayTraces {
    /// The OpenTelemetry collector, as http://HOST:4318; one that wants TLS needs another in between.
    #[schemars(schema_with = "crate::schema::collector")]
    pub collector: String,
    /// Of a hundred requests that belong to no trace, how many begin one. Left out: none; those that belong to one are part of
    /// it where it is sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<u8>,
}

/// The type of the Service in front of a Gateway.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayServiceType {
    /// An address inside of the cluster.
    ClusterIP,
    /// A port of every node.
    NodePort,
    /// An address of a load balancer.
    LoadBalancer,
}

/// Whom nodes hand clients to.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalTrafficPolicy {
    /// Any pod.
    Cluster,
    /// Pods of the node.
    Local,
}

/// What was observed of `GatewayParameters`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayParametersStatus {
    /// Accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Gateways that are made by these parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateways: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateways_own_parameters_count_before_those_of_its_class() {
        let class = GatewayParametersSpec {
            service_type: Some(GatewayServiceType::NodePort),
            replicas: Some(2),
            drain_seconds: Some(300),
            ..GatewayParametersSpec::default()
        };
        let own = GatewayParametersSpec {
            replicas: Some(3),
            host_ports: Some(true),
            ..GatewayParametersSpec::default()
        };
        let made = own.over(&class);
        assert_eq!(made.service_type, Some(GatewayServiceType::NodePort));
        assert_eq!((made.replicas, made.host_ports), (Some(3), Some(true)));
        assert_eq!(made.drain_seconds, Some(300));
    }
}
