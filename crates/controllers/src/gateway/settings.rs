//! What the operator decides where Gateways and their parameters leave it open.

use causeway_api::{GatewayParametersSpec, GatewayServiceType, GatewayTraces, PodTemplate, UpdatePolicy};

use crate::vlan::proxy;

/// Defaults for every Gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The type of Services where `serviceType` is left out.
    pub service_type: GatewayServiceType,
}

impl Default for Settings {
    fn default() -> Self {
        Self { service_type: GatewayServiceType::ClusterIP }
    }
}

/// All that pods and Services are made by: what a Gateway's parameters say, over what the operator was told.
#[derive(Clone, Debug)]
pub(crate) struct Effective {
    /// The Service's type.
    pub(crate) service_type: GatewayServiceType,
    /// Pods.
    pub(crate) replicas: i32,
    /// Whether the ports of nodes are opened.
    pub(crate) host_ports: bool,
    /// This program's image.
    pub(crate) image: String,
    /// Whether pods follow another image of the operator by themselves.
    pub(crate) update_policy: UpdatePolicy,
    /// Where spans of requests go.
    pub(crate) traces: Option<GatewayTraces>,
    /// What pods are given besides.
    pub(crate) pod_template: PodTemplate,
}

impl Effective {
    pub(crate) fn of(parameters: &GatewayParametersSpec, own: &Settings, pods: &proxy::Settings) -> Self {
        let of_pods = parameters.pod_template.clone().unwrap_or_default();
        Self {
            service_type: parameters.service_type.unwrap_or(own.service_type),
            replicas: parameters.replicas.unwrap_or(1),
            host_ports: parameters.host_ports.unwrap_or(false),
            image: parameters.image.clone().unwrap_or_else(|| pods.manager_image.clone()),
            update_policy: parameters.update_policy.unwrap_or(pods.update_policy),
            traces: parameters.traces.clone(),
            pod_template: of_pods.over(&pods.pod_template),
        }
    }
}
