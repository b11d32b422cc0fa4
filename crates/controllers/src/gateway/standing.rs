//! How the data plane of a Gateway stands, as its pods, its Service and its plan show: where clients reach it, what it runs,
//! and what keeps it from its work. Pure.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{GatewayPlan, GatewayReplica, names};
use causeway_translate::{
    gateway::{
        kinds::ObjectRef,
        picture::{Port, node_ports},
        world::{Address, AddressKind, Observed},
    },
    gateway_pod::keys::{ENTRY, Keys},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret, Service},
};
use kube::ResourceExt as _;

use super::child;
use crate::{
    framework::{
        children::{Children, typed},
        kinds::{DEPLOYMENT, GATEWAY_PLAN, SECRET, SERVICE},
    },
    vlan::fleet::{PodState, check_state, deployment_state, image_check::CheckState, pod_state, pods_of},
};

/// What was found of the data plane of one Gateway.
#[derive(Default)]
pub(crate) struct Standing {
    /// Its plan, as it is handed to the pods.
    pub(crate) plan: Option<GatewayPlan>,
    /// Its Deployment.
    pub(crate) deployment: Option<Deployment>,
    /// Its Service.
    pub(crate) service: Option<Service>,
    /// Its pods.
    pods: Vec<Pod>,
    /// The pods that find out whether images can be had.
    pub(crate) checks: Vec<CheckState>,
}

impl Standing {
    /// Reads the caches.
    pub(crate) fn read(children: &Children, at: &ObjectRef) -> Self {
        let name = child::name(&at.name);
        let get = |kind| children.get(kind, &at.namespace, &name);
        Self {
            plan: get(GATEWAY_PLAN).and_then(|object| typed(&object)),
            deployment: get(DEPLOYMENT).and_then(|object| typed(&object)),
            service: get(SERVICE).and_then(|object| typed(&object)),
            pods: pods_of(children, (&at.namespace, "Gateway", &name), names::APP_GATEWAY),
            checks: pods_of(children, (&at.namespace, "Gateway", &name), names::APP_IMAGE_CHECK)
                .iter()
                .map(check_state)
                .collect(),
        }
    }

    /// The pods that are there.
    pub(crate) fn pods(&self) -> Vec<PodState> {
        self.pods.iter().map(pod_state).collect()
    }

    /// The pods that report.
    pub(crate) fn reports(&self) -> &[GatewayReplica] {
        self.plan.as_ref().and_then(|plan| plan.status.as_ref()).map_or(&[], |status| &status.replicas)
    }

    /// The certificates and authorities that its pods are given.
    pub(crate) fn given(&self, children: &Children) -> Keys {
        let mut given = Keys::default();
        let Some(plan) = &self.plan else { return given };
        for name in &plan.spec.certificates {
            let copy = children.get(SECRET, &plan.namespace().unwrap_or_default(), name);
            let text = copy.and_then(|object| typed::<Secret>(&object)?.data?.remove(ENTRY));
            if let Some(keys) = text.and_then(|text| Keys::read(&text.0).ok()) {
                given.extend(keys);
            }
        }
        given
    }

    /// Whether its pods are being replaced.
    pub(crate) fn is_rolling(&self) -> bool {
        self.deployment.as_ref().is_some_and(|deployment| deployment_state(deployment, 0).is_rolling)
    }

    /// Whether that goes on: nobody else waits for pods that can't start.
    pub(crate) fn is_updating(&self) -> bool {
        self.is_rolling() && !self.pods().iter().any(|pod| !pod.is_leaving && pod.trouble.is_some())
    }

    /// In the words of a picture. `unusable` are addresses that it asked for in vain.
    pub(crate) fn observed(&self, unusable: &BTreeMap<String, String>) -> Observed {
        let pods = self.pods();
        let is_there =
            |report: &&GatewayReplica| pods.iter().any(|pod| pod.name == report.name && !pod.is_leaving);
        let reports: Vec<&GatewayReplica> = self.reports().iter().filter(is_there).collect();
        let serving: Vec<_> = reports.iter().filter(|report| report.serving).collect();
        let generations = serving.iter().map(|report| report.gateway_generation);
        let running_generation =
            generations.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().min());
        let said = reports.iter().filter_map(|report| {
            let word = report.refused.as_ref().or(report.trouble.as_ref())?;
            Some(format!("pod {}: {word}", report.name))
        });
        let stuck = pods
            .iter()
            .filter(|pod| !pod.is_leaving && serving.is_empty())
            .filter_map(|pod| Some(format!("pod {}: {}", pod.name, pod.trouble.as_ref()?)));
        let refused = self.deployment.as_ref().and_then(|deployment| deployment_state(deployment, 0).refused);
        let (addresses, node_ports) = self.addresses();
        Observed {
            addresses,
            node_ports,
            unusable: unusable.clone(),
            serving: !serving.is_empty(),
            running_generation,
            trouble: said.chain(stuck).chain(refused).next(),
            stuck: None,
        }
    }

    /// Where clients reach it, by the type of its Service; the nodes where its pods are, if it has their ports. With the
    /// ports there that are others than its own.
    fn addresses(&self) -> (Vec<Address>, BTreeMap<Port, u16>) {
        let ip = |value: &String| Address { kind: AddressKind::Ip, value: value.clone() };
        let has_host_ports = self.deployment.iter().any(|deployment| {
            let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
            let ports =
                spec.iter().flat_map(|spec| &spec.containers).flat_map(|one| one.ports.iter().flatten());
            ports.into_iter().any(|port| port.host_port.is_some())
        });
        if has_host_ports {
            return (self.nodes().iter().map(ip).collect(), BTreeMap::new());
        }
        let Some(service) = &self.service else { return Default::default() };
        let Some(spec) = &service.spec else { return Default::default() };
        let addresses = match spec.type_.as_deref() {
            Some("LoadBalancer") => {
                let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
                let ingress = balancer.iter().flat_map(|balancer| balancer.ingress.iter().flatten());
                let address = ingress.filter_map(|ingress| match (&ingress.ip, &ingress.hostname) {
                    (Some(address), _) => Some(ip(address)),
                    (None, Some(name)) => Some(Address { kind: AddressKind::Hostname, value: name.clone() }),
                    (None, None) => None,
                });
                address.collect()
            }
            Some("NodePort") => {
                let ports = node_ports(service).into_iter().map(|(port, on_node)| Some((port, on_node?)));
                // Who does not know the port has no use for the address.
                let Some(ports) = ports.collect::<Option<_>>() else { return Default::default() };
                return (self.nodes().iter().map(ip).collect(), ports);
            }
            _ => {
                // Of each family one, its own first.
                let own = spec.cluster_ips.as_deref().unwrap_or(spec.cluster_ip.as_slice());
                own.iter().filter(|address| *address != "None").map(ip).collect()
            }
        };
        (addresses, BTreeMap::new())
    }

    /// The addresses of the nodes where its pods are.
    fn nodes(&self) -> BTreeSet<String> {
        let running = self.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        running.filter_map(|pod| pod.status.as_ref()?.host_ip.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
