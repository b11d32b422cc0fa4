//! What workstations may reach, and what names mean: the addresses of Services and pods, never those of nodes. Of each object that
//! is watched only that is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_stowaway::hub::Reach;
use causeway_translate::stowaway_pod::Bounds;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::saved::Saved;
use crate::feed::{Feed, Which};

/// What the cluster has, as it was last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Seen {
    services: BTreeSet<IpAddr>,
    pods: BTreeSet<IpAddr>,
    nodes: BTreeSet<IpAddr>,
    names: BTreeMap<String, Vec<IpAddr>>,
}

/// The watches.
pub(super) struct Surroundings {
    domain: String,
    services: Feed<Service>,
    slices: Feed<EndpointSlice>,
    pods: Feed<Pod>,
    nodes: Feed<Node>,
    /// What was made of them last, with the bounds of that time.
    last: Mutex<Option<(Seen, Bounds)>>,
}

impl Surroundings {
    pub(super) fn watch(client: &Client, domain: &str, changed: &Arc<Notify>) -> Self {
        let all = &Which::All;
        Self {
            domain: domain.to_owned(),
            services: Feed::start_trimmed(Api::all(client.clone()), all, Arc::clone(changed), trim_service),
            slices: Feed::start_trimmed(Api::all(client.clone()), all, Arc::clone(changed), trim_slice),
            pods: Feed::start_trimmed(Api::all(client.clone()), all, Arc::clone(changed), trim_pod),
            nodes: Feed::start_trimmed(Api::all(client.clone()), all, Arc::clone(changed), trim_node),
            last: Mutex::default(),
        }
    }

    /// What may be reached, if that is another than it was. Until the cluster was read, what was saved.
    pub(super) fn reach(&self, bounds: &Bounds, saved: Option<&Saved>) -> Option<Reach> {
        let is_read = self.services.is_complete()
            && self.slices.is_complete()
            && self.pods.is_complete()
            && self.nodes.is_complete();
        let seen = if is_read {
            self.see()
        } else {
            // Half of it would cut off what is reached.
            let last = lock(&self.last).as_ref().map(|(seen, _)| seen.clone());
            last.or_else(|| saved.map(|saved| saved.seen.clone()))?
        };
        let mut last = lock(&self.last);
        if last.as_ref().is_some_and(|(before, with)| *before == seen && with == bounds) {
            return None;
        }
        let reach = seen.reach(bounds);
        *last = Some((seen, bounds.clone()));
        Some(reach)
    }

    /// What was made of it last.
    pub(super) fn last(&self) -> Seen {
        lock(&self.last).as_ref().map(|(seen, _)| seen.clone()).unwrap_or_default()
    }

    fn see(&self) -> Seen {
        Seen::of(
            &self.services.objects(),
            &self.slices.objects(),
            &self.pods.objects(),
            &self.nodes.objects(),
            &self.domain,
        )
    }
}

impl Seen {
    fn of(
        services: &[Arc<Service>],
        slices: &[Arc<EndpointSlice>],
        pods: &[Arc<Pod>],
        nodes: &[Arc<Node>],
        domain: &str,
    ) -> Self {
        let mut seen = Self::default();
        let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
        let mut behind: HashMap<(String, String), Vec<&Endpoint>> = HashMap::new();
        for slice in slices.iter().filter(|slice| slice.address_type != "FQDN") {
            let Some(service) = slice.labels().get(SERVICE_NAME_LABEL) else { continue };
            let at = (slice.namespace().unwrap_or_default(), service.clone());
            behind.entry(at).or_default().extend(&slice.endpoints);
        }
        for service in services {
            let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
            let Some(spec) = &service.spec else { continue };
            let own: Vec<IpAddr> =
                spec.cluster_ips.iter().flatten().filter_map(|address| address.parse().ok()).collect();
            let endpoints = behind.remove(&(namespace.clone(), name.clone())).unwrap_or_default();
            let is_headless = own.is_empty() && spec.type_.as_deref() != Some("ExternalName");
            seen.services.extend(&own);
            let mut addresses = own;
            if is_headless {
                let found: BTreeSet<IpAddr> = endpoints.iter().filter_map(|one| address(one)).collect();
                addresses.extend(found);
            }
            for endpoint in &endpoints {
                if let (Some(host), Some(at)) = (&endpoint.hostname, address(endpoint)) {
                    for name in names(&format!("{host}.{name}"), &namespace, domain) {
                        hosts.entry(name).or_default().push(at);
                    }
                }
            }
            if !addresses.is_empty() {
                for name in names(&name, &namespace, domain) {
                    seen.names.insert(name, addresses.clone());
                }
            }
        }
        // In a namespace `svc` a pod's name is as long as the name of another namespace's Service: that one has it.
        for (name, addresses) in hosts {
            seen.names.entry(name).or_insert(addresses);
        }
        for pod in pods {
            // A pod with the node's addresses is the node.
            if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
                continue;
            }
            let ips = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
            seen.pods.extend(ips.filter_map(|ip| ip.ip.parse::<IpAddr>().ok()));
        }
        for node in nodes {
            let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
            seen.nodes.extend(addresses.filter_map(|one| one.address.parse::<IpAddr>().ok()));
        }
        seen
    }

    fn reach(&self, bounds: &Bounds) -> Reach {
        let mut addresses: HashSet<IpAddr> = HashSet::new();
        if !bounds.no_services {
            addresses.extend(&self.services);
        }
        if !bounds.no_pods {
            addresses.extend(&self.pods);
        }
        let nodes = self.nodes.iter().map(|address| IpNet::from(*address));
        Reach {
            addresses,
            networks: bounds.networks.clone(),
            denied: bounds.denied.iter().copied().chain(nodes).collect(),
            names: self.names.iter().map(|(name, to)| (name.clone(), to.clone())).collect(),
            outside_names: bounds.outside_names,
        }
    }
}

/// How a name in a namespace is written in full, and shorter.
fn names(name: &str, namespace: &str, domain: &str) -> [String; 3] {
    [
        format!("{name}.{namespace}"),
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.{domain}"),
    ]
}

fn address(endpoint: &Endpoint) -> Option<IpAddr> {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let is_there = conditions.ready.unwrap_or(true);
    endpoint.addresses.first().filter(|_| is_there)?.parse().ok()
}

fn bare(metadata: &mut ObjectMeta) {
    *metadata = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        uid: metadata.uid.take(),
        resource_version: metadata.resource_version.take(),
        ..ObjectMeta::default()
    };
}

fn trim_service(service: &mut Service) {
    bare(&mut service.metadata);
    service.status = None;
    if let Some(spec) = service.spec.take() {
        service.spec =
            Some(ServiceSpec { cluster_ips: spec.cluster_ips, type_: spec.type_, ..ServiceSpec::default() });
    }
}

fn trim_slice(slice: &mut EndpointSlice) {
    let label = slice.metadata.labels.as_mut().and_then(|labels| labels.remove_entry(SERVICE_NAME_LABEL));
    bare(&mut slice.metadata);
    slice.metadata.labels = label.map(|label| [label].into());
    slice.ports = None;
    for endpoint in &mut slice.endpoints {
        *endpoint = Endpoint {
            addresses: std::mem::take(&mut endpoint.addresses),
            conditions: endpoint.conditions.take(),
            hostname: endpoint.hostname.take(),
            ..Endpoint::default()
        };
    }
}

fn trim_pod(pod: &mut Pod) {
    bare(&mut pod.metadata);
    pod.spec = pod.spec.take().map(|spec| PodSpec { host_network: spec.host_network, ..PodSpec::default() });
    pod.status = pod.status.take().map(|status| {
        let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let pod_ips = status.pod_ips.filter(|_| !is_over);
        PodStatus { pod_ips, ..PodStatus::default() }
    });
}

fn trim_node(node: &mut Node) {
    bare(&mut node.metadata);
    node.spec = node.spec.take().map(|_| NodeSpec::default());
    node.status =
        node.status.take().map(|status| NodeStatus { addresses: status.addresses, ..NodeStatus::default() });
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn typed<K: DeserializeOwned>(value: Value, trim: fn(&mut K)) -> Arc<K> {
        let mut object = serde_json::from_value(value).unwrap();
        trim(&mut object);
        Arc::new(object)
    }

    #[test]
    fn a_pod_does_not_answer_for_a_service_of_another_namespace() {
        let service = |name: &str, namespace: &str, ip: &str| {
            typed(
                json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIPs": [ip]}}),
                trim_service,
            )
        };
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "svc", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.66"], "hostname": "db"}],
        });
        let slices = [typed(slice, trim_slice)];
        let (victim, thief) = (service("db", "web", "10.0.0.7"), service("web", "svc", "None"));
        for services in [[victim.clone(), thief.clone()], [thief, victim]] {
            let seen = Seen::of(&services, &slices, &[], &[], "cluster.local");
            assert_eq!(seen.names["db.web.svc"], ["10.0.0.7".parse::<IpAddr>().unwrap()]);
            assert_eq!(seen.names["db.web.svc.svc"], ["10.1.0.66".parse::<IpAddr>().unwrap()]);
        }
    }

    #[test]
    fn services_and_pods_are_reached_and_nodes_are_not() {
        let service = |name: &str, ip: Value| {
            typed(
                json!({"metadata": {"name": name, "namespace": "shop", "labels": {"a": "b"}}, "spec": {"clusterIPs": ip}}),
                trim_service,
            )
        };
        let services = [service("web", json!(["10.0.0.1", "fd00::1"])), service("db", json!(["None"]))];
        let slice = json!({
            "metadata": {"name": "db-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "db"}},
            "addressType": "IPv4", "endpoints": [
                {"addresses": ["10.1.0.1"], "hostname": "db-0"},
                {"addresses": ["10.1.0.2"], "conditions": {"ready": false}, "hostname": "db-1"},
            ],
        });
        let pod = |ip: &str, host: bool, phase: &str| {
            typed(
                json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": host, "containers": []},
                       "status": {"phase": phase, "podIPs": [{"ip": ip}]}}),
                trim_pod,
            )
        };
        let pods = [
            pod("10.1.0.1", false, "Running"),
            pod("192.168.0.9", true, "Running"),
            pod("10.1.0.7", false, "Succeeded"),
        ];
        let node = json!({"metadata": {"name": "n"}, "status": {"addresses": [
            {"type": "InternalIP", "address": "192.168.0.9"}, {"type": "Hostname", "address": "n"}]}});
        let seen = Seen::of(
            &services,
            &[typed(slice, trim_slice)],
            &pods,
            &[typed(node, trim_node)],
            "cluster.local",
        );
        let reach = seen.reach(&Bounds::default());
        for (address, reached) in [
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("10.1.0.1", true),
            ("10.1.0.7", false),
            ("192.168.0.9", false),
            ("169.254.169.254", false),
            ("8.8.8.8", false),
        ] {
            assert_eq!(reach.allows(address.parse().unwrap()), reached, "{address}");
        }
        let named = |name: &str| {
            reach.names.get(name).map(|to| to.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        for name in ["web.shop", "web.shop.svc", "web.shop.svc.cluster.local"] {
            assert_eq!(named(name), Some(vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()]), "{name}");
        }
        assert_eq!(named("db.shop"), Some(vec!["10.1.0.1".to_owned()]));
        assert_eq!(named("db-0.db.shop.svc.cluster.local"), Some(vec!["10.1.0.1".to_owned()]));
        assert_eq!(named("db-1.db.shop"), None, "it is not ready");
        let bounds = Bounds {
            no_pods: true,
            networks: vec!["10.1.0.0/24".parse().unwrap()],
            denied: vec!["10.1.0.1/32".parse().unwrap()],
            ..Bounds::default()
        };
        let reach = seen.reach(&bounds);
        assert!(reach.allows("10.1.0.9".parse().unwrap()) && !reach.allows("10.1.0.1".parse().unwrap()));
    }
}
