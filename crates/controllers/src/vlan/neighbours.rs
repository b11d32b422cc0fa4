//! Whether what is served on a network gets there. The DNS and DHCP servers of a namespace try to reach all servers that it
//! has on their network, and say which do not answer: whoever serves by its own word and is not reached is not ready. So a
//! filter between them is seen, whatever it is. Of a server that is alone on its network nobody can say that.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use causeway_api::ServerReplica;
use kube::{Resource, api::DynamicObject};
use serde_json::Value;

use super::{
    claims::{self, Attachment},
    network::Networks,
};
use crate::framework::{
    children::{Children, is_kind},
    kinds::{DHCP_SERVER, DNS_SERVER},
};

/// Neighbours that a pod tries to reach.
const MOST: usize = 16;

/// What to look at; short, since an `Infra` says it for each of its servers.
const REMEDY: &str = "something filters what passes between them, such as a firewall of their nodes: the FORWARD chain where \
                      net.bridge.bridge-nf-call-iptables is 1 (Docker drops there), or tables of nft of the family bridge. On \
                      one machine `causeway doctor infra/NAME`, as root, says what to write";

/// The neighbours of an object's pods, in words for them: the addresses that objects of its namespace have on its network, each
/// with a port of what is served there.
pub(crate) fn told(object: &impl Resource, attachment: &Attachment, children: &Children) -> String {
    let networks = Networks::of(children);
    let near = claims::of(children)
        .filter(|claim| Some(&claim.spec.holder.namespace) == object.meta().namespace.as_ref());
    let near = near.filter_map(|claim| {
        let (_, address) = claims::place(&claim).filter(|(there, _)| networks.are_one(there, attachment))?;
        let port = match claim.spec.holder.kind.as_str() {
            "DHCPServer" => 67,
            "DNSServer" => 53,
            _ => 443,
        };
        Some(SocketAddr::new(address, port))
    });
    let near: BTreeSet<SocketAddr> = near.collect();
    near.iter().take(MOST).map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Why those of an object's pods that serve at these addresses are not reached, if so.
pub(crate) fn unreached(
    object: &impl Resource,
    attachment: Option<&Attachment>,
    serving: &[IpAddr],
    children: &Children,
) -> Option<String> {
    let attachment = attachment.filter(|_| !serving.is_empty())?;
    let networks = Networks::of(children);
    let near = [DHCP_SERVER, DNS_SERVER].into_iter().flat_map(|kind| children.all(kind));
    let near = near.filter(|other| {
        other.metadata.namespace == object.meta().namespace
            && other.metadata.deletion_timestamp.is_none()
            && attachment_of(other).is_some_and(|there| networks.are_one(&there, attachment))
    });
    let mut each: Vec<String> = near
        .flat_map(|other| replicas(&other))
        // One that does not serve, for whatever is in its way, is no witness.
        .filter(|witness| witness.serving)
        .flat_map(|witness| {
            let missed = serving.iter().filter(|address| witness.unreached.contains(&address.to_string()));
            let from = witness.address.as_deref().unwrap_or_default();
            let say = |address: &IpAddr| format!("{address} is not reached by pod {} ({from})", witness.name);
            missed.map(say).collect::<Vec<_>>()
        })
        .collect();
    each.sort();
    (!each.is_empty()).then(|| format!("{} on the same network: {REMEDY}", each.join(", ")))
}

/// Whether a change of `read` may change what neighbours say of an object.
pub(crate) fn is_witness(object: &impl Resource, read: &DynamicObject) -> bool {
    (is_kind(read, DHCP_SERVER) || is_kind(read, DNS_SERVER))
        && read.metadata.namespace == object.meta().namespace
        && read.metadata.uid != object.meta().uid
}

fn attachment_of(server: &DynamicObject) -> Option<Attachment> {
    let network = server.data.pointer("/spec/networkConfig")?;
    let text = |field: &str| network[field].as_str().map(str::to_owned);
    let (name, namespace) = (text("networkAttachmentName"), text("networkAttachmentNamespace"));
    Attachment::named(name.as_ref(), namespace.as_ref(), server)
}

fn replicas(server: &DynamicObject) -> Vec<ServerReplica> {
    let replicas = server.data.pointer("/status/replicas").and_then(Value::as_array);
    let replicas = replicas.into_iter().flatten();
    replicas.filter_map(|replica| serde_json::from_value(replica.clone()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use causeway_api::{ProxyServer, ProxyServerSpec};
    use serde_json::json;

    use super::*;
    use crate::framework::kinds::{ADDRESS_CLAIM, NETWORK_ATTACHMENT};
    use crate::vlan::network::tests::definition;

    fn at(name: &str) -> Attachment {
        Attachment { namespace: "lab".into(), name: name.into() }
    }

    fn proxy() -> ProxyServer {
        let mut proxy = ProxyServer::new("front", ProxyServerSpec::default());
        proxy.metadata.namespace = Some("lab".into());
        proxy
    }

    fn networks() -> Vec<DynamicObject> {
        let bridge =
            |name: &str, bridge: &str| definition(name, &json!({ "type": "bridge", "bridge": bridge }));
        vec![bridge("vlan", "br1"), bridge("alias", "br1"), bridge("other", "br2")]
    }

    #[test]
    fn neighbours_are_those_of_the_namespace_on_the_network() {
        let claim = |attachment: &str, kind: &str, namespace: &str, address: &str| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "AddressClaim",
                "metadata": { "name": format!("{attachment}.{address}"), "namespace": "lab" },
                "spec": {
                    "networkAttachmentName": attachment, "address": address,
                    "holder": { "kind": kind, "namespace": namespace, "name": "x", "uid": "x" },
                },
            }))
            .unwrap()
        };
        let claims = vec![
            claim("vlan", "DHCPServer", "lab", "192.168.100.2"),
            claim("alias", "DNSServer", "lab", "192.168.100.3"),
            claim("vlan", "ProxyServer", "lab", "fd00::4"),
            claim("vlan", "ProxyServer", "tenant", "192.168.100.5"),
            claim("other", "ProxyServer", "lab", "192.168.100.6"),
        ];
        let children = Children::fixed(&[(ADDRESS_CLAIM, claims), (NETWORK_ATTACHMENT, networks())]);
        let told = told(&proxy(), &at("vlan"), &children);
        assert_eq!(told, "192.168.100.2:67,192.168.100.3:53,[fd00::4]:443");
    }

    #[test]
    fn who_is_not_reached_by_a_neighbour_that_serves_is_told_why() {
        let server = |name: &str, attachment: &str, serving: bool, unreached: &Value| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer",
                "metadata": { "name": name, "namespace": "lab", "uid": name },
                "spec": { "networkConfig": { "networkAttachmentName": attachment } },
                "status": { "replicas": [{
                    "name": format!("{name}-x"), "serving": serving, "address": "192.168.100.2", "unreached": unreached,
                }] },
            }))
            .unwrap()
        };
        let said = |servers: Vec<DynamicObject>, serving: &[&str]| {
            let serving: Vec<IpAddr> = serving.iter().map(|text| text.parse().unwrap()).collect();
            let children = Children::fixed(&[(DHCP_SERVER, servers), (NETWORK_ATTACHMENT, networks())]);
            unreached(&proxy(), Some(&at("vlan")), &serving, &children)
        };
        let missed = json!(["192.168.100.4"]);
        let found = said(vec![server("dhcp", "alias", true, &missed)], &["192.168.100.4"]).unwrap();
        assert!(
            found.starts_with("192.168.100.4 is not reached by pod dhcp-x (192.168.100.2) on"),
            "{found}"
        );
        assert!(found.contains("bridge-nf-call-iptables") && found.contains("causeway doctor"), "{found}");
        for (server, serving, why) in [
            (server("dhcp", "vlan", true, &json!([])), &["192.168.100.4"][..], "it is reached"),
            (server("dhcp", "vlan", true, &missed), &[], "it does not serve, which has a cause of its own"),
            (server("dhcp", "vlan", true, &missed), &["192.168.100.9"], "another address"),
            (server("dhcp", "vlan", false, &missed), &["192.168.100.4"], "who can't work is no witness"),
            (server("dhcp", "other", true, &missed), &["192.168.100.4"], "another network"),
        ] {
            assert_eq!(said(vec![server], serving), None, "{why}");
        }
    }
}
