//! Where laptops find the cluster's end, in words that they can dial. Pure.

use std::collections::BTreeSet;

use causeway_translate::intercept::names::{LINK_PORT, WIREGUARD_PORT};
use k8s_openapi::api::core::v1::{Node, Service};

use crate::intercepts::settings::{Entry, Settings};

/// Of thousands of nodes a few will do.
const MOST_HOSTS: usize = 8;

/// Where laptops find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// HOST:PORT for links.
    pub(crate) links: Vec<String>,
    /// HOST:PORT for WireGuard.
    pub(crate) wireguard: Option<String>,
}

impl Way {
    /// By the Services as they are.
    pub(crate) fn find(
        settings: &Settings,
        inner: Option<&Service>,
        entry: Option<&Service>,
        nodes: &[Node],
    ) -> Self {
        let (hosts, [link, wireguard]) = match settings.entry {
            Entry::PortForward => return Self::default(),
            Entry::ClusterIP => (own_addresses(inner), [Some(LINK_PORT), Some(WIREGUARD_PORT)]),
            Entry::NodePort => {
                (node_addresses(nodes), [node_port(entry, LINK_PORT), node_port(entry, WIREGUARD_PORT)])
            }
            Entry::LoadBalancer => (balanced(entry), [Some(LINK_PORT), Some(WIREGUARD_PORT)]),
        };
        let hosts = if settings.advertise.is_empty() { hosts } else { settings.advertise.clone() };
        let at = |port: Option<u16>| {
            port.map(|port| hosts.iter().map(|host| socket(host, port)).collect()).unwrap_or_default()
        };
        let wireguard: Vec<String> = at(wireguard);
        Self { links: at(link), wireguard: wireguard.into_iter().next() }
    }
}

fn socket(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn own_addresses(service: Option<&Service>) -> Vec<String> {
    let spec = service.and_then(|service| service.spec.as_ref());
    let own = spec.map(|spec| spec.cluster_ips.as_deref().unwrap_or(spec.cluster_ip.as_slice()));
    own.into_iter().flatten().filter(|address| *address != "None").cloned().collect()
}

fn node_port(service: Option<&Service>, port: u16) -> Option<u16> {
    let ports = service?.spec.as_ref()?.ports.as_ref()?;
    let found = ports.iter().find(|one| one.port == i32::from(port))?;
    u16::try_from(found.node_port?).ok()
}

fn balanced(service: Option<&Service>) -> Vec<String> {
    let status = service.and_then(|service| service.status.as_ref()?.load_balancer.as_ref());
    let ingress = status.into_iter().flat_map(|status| status.ingress.iter().flatten());
    ingress.filter_map(|ingress| ingress.ip.clone().or_else(|| ingress.hostname.clone())).collect()
}

/// Of each node that works the address that is reached from farthest away.
fn node_addresses(nodes: &[Node]) -> Vec<String> {
    let address = |node: &Node| {
        let status = node.status.as_ref()?;
        let is_ready =
            status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
        let of = |kind: &str| status.addresses.iter().flatten().find(|one| one.type_ == kind);
        of("ExternalIP").or_else(|| of("InternalIP")).filter(|_| is_ready).map(|one| one.address.clone())
    };
    let found: BTreeSet<String> = nodes.iter().filter_map(address).collect();
    found.into_iter().take(MOST_HOSTS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(address: &str, ready: &str) -> Node {
        serde_json::from_value(json!({"status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": ready}],
        }}))
        .unwrap()
    }

    fn service(spec: serde_json::Value, status: serde_json::Value) -> Service {
        serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn every_kind_of_entry_is_found_where_it_is() {
        let settings = |entry| Settings { entry, ..Settings::default() };
        let nodes = [node("10.0.0.2", "True"), node("fd00::1", "True"), node("10.0.0.3", "False")];
        let ports = json!({"ports": [
            {"port": 7844, "nodePort": 31844}, {"port": 51820, "protocol": "UDP", "nodePort": 31820}]});
        let by_node = service(ports, json!({}));
        let way = Way::find(&settings(Entry::NodePort), None, Some(&by_node), &nodes);
        assert_eq!(way.links, ["10.0.0.2:31844", "[fd00::1]:31844"]);
        assert_eq!(way.wireguard.as_deref(), Some("10.0.0.2:31820"));
        assert_eq!(Way::find(&settings(Entry::NodePort), None, None, &nodes), Way::default());

        let inner = service(json!({"clusterIP": "127.96.1.2", "clusterIPs": ["127.96.1.2"]}), json!({}));
        let way = Way::find(&settings(Entry::ClusterIP), Some(&inner), None, &nodes);
        assert_eq!(way.links, ["127.96.1.2:7844"]);

        let balancer = service(json!({}), json!({"loadBalancer": {"ingress": [{"hostname": "lb.test"}]}}));
        let way = Way::find(&settings(Entry::LoadBalancer), None, Some(&balancer), &[]);
        assert_eq!(
            (way.links, way.wireguard),
            (vec!["lb.test:7844".to_owned()], Some("lb.test:51820".to_owned()))
        );

        let told = Settings { advertise: vec!["dev.test".into()], ..settings(Entry::NodePort) };
        assert_eq!(Way::find(&told, None, Some(&by_node), &nodes).links, ["dev.test:31844"]);
        assert_eq!(Way::find(&settings(Entry::PortForward), Some(&inner), None, &nodes), Way::default());
    }
}
