//! What of a network is a DHCP server's own. Two servers on one network share it: no address is leased by both.

use std::net::{IpAddr, Ipv4Addr};

use causeway_api::{AddressClaim, AddressClaimSpec, DHCPServer, names};
use causeway_ir::Problem;
use causeway_translate::dhcp::{self, validate};
use kube::ResourceExt;

use crate::{
    framework::{
        children::{Children, controller_uid, typed},
        kinds::{CONFIG_MAP, DHCP_SERVER},
    },
    grants::{Grants, Users},
    vlan::{accepted, claims, network::Networks, server::Server as _},
};

/// What servers were let have is theirs, whoever asks; of two that were let have nothing yet, the older has it. So nobody
/// takes anything from a server that runs, neither by a new object nor by an edit; and who may not use the network has
/// nothing of it.
pub(super) fn conflict(server: &DHCPServer, children: &Children, grants: Option<&Grants>) -> Option<Problem> {
    let accepted = server.status.as_ref().and_then(|status| status.accepted_generation);
    if accepted.is_some() && accepted == server.metadata.generation {
        return None;
    }
    let (own, attachment) = (validate(server).ok()?, server.attachment()?);
    let networks = Networks::of(children);
    let has_some = !held(server, children).is_empty();
    let others = children.all(DHCP_SERVER).into_iter().filter_map(|other| typed::<DHCPServer>(&other));
    let others =
        others.filter(|other| other.uid() != server.uid() && other.metadata.deletion_timestamp.is_none());
    let has = |other: DHCPServer| {
        let held = held(&other, children);
        let is_first = held.is_empty() && !has_some && is_older(&other, server);
        if is_first { vec![other] } else { held }
    };
    let is_there = |other: &DHCPServer| {
        let namespace = other.namespace().unwrap_or_default();
        let users = Users { group: names::GROUP, kind: "DHCPServer", namespace: &namespace };
        other
            .attachment()
            .is_some_and(|there| networks.are_one(&there, &attachment) && there.is_open_to(users, grants))
    };
    let mut others: Vec<_> = others.flat_map(has).filter(is_there).collect();
    others.sort_by_key(|other| (other.namespace(), other.name_any()));
    let of_servers = || {
        others.iter().find_map(|other| {
            let name = format!("{}/{}", other.namespace().unwrap_or_default(), other.name_any());
            dhcp::conflict(&own, &validate(other).ok()?, &name)
        })
    };
    // The address of a server can't be a client's.
    let claim = claims::of(children).find_map(|claim| {
        let (there, address) = claims::place(&claim)?;
        (networks.are_one(&there, &attachment) && own.reserves(address)).then_some(claim)
    });
    let of_claim = claim.map(|AddressClaim { spec: AddressClaimSpec { address, holder, .. }, .. }| Problem {
        path: "spec.reservations".to_owned(),
        message: format!("{address} is that of {}: reserve another", claims::said(&holder)),
    });
    of_claim.or_else(of_servers)
}

/// What a server's pods are told of their network: what of it is theirs, and what in their range is not.
pub(super) fn told(server: &DHCPServer, children: &Children) -> Vec<(&'static str, String)> {
    let Ok(valid) = validate(server) else { return Vec::new() };
    let ((first, last), attachment) = (valid.range(), server.attachment());
    let networks = Networks::of(children);
    let claimed = claims::of(children).filter_map(|claim| claims::place(&claim));
    let mut taken: Vec<Ipv4Addr> = claimed
        .filter(|(there, _)| attachment.as_ref().is_some_and(|own| networks.are_one(there, own)))
        .filter_map(|(_, address)| if let IpAddr::V4(address) = address { Some(address) } else { None })
        .filter(|address| (first..=last).contains(address))
        .collect();
    taken.sort_unstable();
    let taken: Vec<_> = taken.iter().map(ToString::to_string).collect();
    let taken = (!taken.is_empty()).then(|| (names::TAKEN_ADDRESSES, taken.join(",")));
    [(names::CLEARED_SHARE, valid.share())].into_iter().chain(taken).collect()
}

/// What a server was let have of its network: what it runs with, and what it is about to.
fn held(server: &DHCPServer, children: &Children) -> Vec<DHCPServer> {
    let cleared = entry(server, children, names::CLEARED_SHARE);
    let is_cleared = || validate(server).is_ok_and(|valid| Some(valid.share()) == cleared);
    let cleared = (cleared.is_some() && is_cleared()).then(|| server.clone());
    accepted::kept(server, children).into_iter().chain(cleared).collect()
}

/// What a server's pods were told under this key.
pub(super) fn entry(server: &DHCPServer, children: &Children, key: &str) -> Option<String> {
    let namespace = server.namespace().unwrap_or_default();
    let map = children.get(CONFIG_MAP, &namespace, &names::server_config_map(&server.name_any(), "dhcp"));
    let map = map.filter(|map| controller_uid(&**map) == server.uid().as_deref())?;
    map.data["data"][key].as_str().map(str::to_owned)
}

fn is_older(one: &DHCPServer, other: &DHCPServer) -> bool {
    let age = |server: &DHCPServer| {
        (
            server.metadata.creation_timestamp.as_ref().map(|time| time.0),
            server.namespace(),
            server.name_any(),
        )
    };
    age(one) < age(other)
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::framework::kinds::{ADDRESS_CLAIM, NETWORK_ATTACHMENT};
    use crate::vlan::network::tests::definition;

    fn server(name: &str, age: i64, first: u8, last: u8) -> DHCPServer {
        serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer",
            "metadata": {
                "name": name, "namespace": "lab", "uid": name, "generation": 2,
                "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"),
            },
            "spec": {
                "networkConfig": {
                    "cidr": "192.168.100.0/24", "gateway": "192.168.100.1",
                    "serverIP": format!("192.168.100.{}", age + 2), "networkAttachmentName": "vlan",
                },
                "leaseConfig": {
                    "rangeStart": format!("192.168.100.{first}"), "rangeEnd": format!("192.168.100.{last}"),
                },
                "clients": "Reserved",
            },
        }))
        .unwrap()
    }

    fn cache(servers: &[&DHCPServer], kept: &[&DHCPServer], cleared: &[&DHCPServer]) -> Children {
        let object = |value: Value| serde_json::from_value(value).unwrap();
        let servers = servers.iter().map(|server| object(serde_json::to_value(server).unwrap())).collect();
        let maps = kept.iter().map(|server| {
            object(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": format!("{}-dhcp-config", server.name_any()), "namespace": "lab" },
                "data": { "accepted.json": accepted::text(*server).unwrap() },
            }))
        });
        let cleared = cleared.iter().map(|server| {
            object(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": format!("{}-dhcp-config", server.name_any()), "namespace": "lab",
                    "ownerReferences": [{
                        "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "name": server.name_any(),
                        "uid": server.uid(), "controller": true,
                    }],
                },
                "data": { "share": validate(server).unwrap().share() },
            }))
        });
        Children::fixed(&[(DHCP_SERVER, servers), (CONFIG_MAP, maps.chain(cleared).collect())])
    }

    fn claim(name: &str, address: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "AddressClaim",
            "metadata": { "name": name, "namespace": "lab" },
            "spec": {
                "networkAttachmentName": if name == "elsewhere" { "other" } else { "vlan" }, "address": address,
                "holder": { "kind": "ProxyServer", "namespace": "lab", "name": "front", "uid": "u" },
            },
        }))
        .unwrap()
    }

    #[test]
    fn nobody_takes_a_range_from_a_server_that_runs() {
        let (old, new, apart) =
            (server("old", 1, 50, 99), server("new", 2, 90, 120), server("apart", 3, 200, 220));
        let all = [&old, &new, &apart];
        let paths = |children: &Children| {
            all.map(|server| conflict(server, children, None).map(|problem| problem.path))
        };
        let range = Some("spec.leaseConfig.rangeStart".to_owned());
        assert_eq!(paths(&cache(&all, &[], &[])), [None, range.clone(), None], "the older has it");
        assert_eq!(paths(&cache(&all, &[&new], &[])), [range.clone(), None, None], "who runs has it");
        assert_eq!(paths(&cache(&all, &[], &[&new])), [range.clone(), None, None], "who was let have it");
        let edited = server("apart", 3, 100, 110);
        let children = cache(&[&new, &edited], &[&new, &apart], &[]);
        let found = conflict(&edited, &children, None).unwrap();
        assert!(found.message.contains("DHCPServer lab/new"), "{found:?}");
        assert_eq!(conflict(&new, &children, None), None, "an edit of another changes nothing");
    }

    #[test]
    fn two_names_of_one_network_are_one_network() {
        let old = server("old", 1, 50, 99);
        let mut new = server("new", 2, 90, 120);
        new.spec.network_config.network_attachment_name = Some("alias".into());
        let judged = |bridge: &str| {
            let servers = [&old, &new].map(|server| serde_json::to_value(server).unwrap());
            let servers = servers.map(|server| serde_json::from_value(server).unwrap()).to_vec();
            let leads =
                |name: &str, bridge: &str| definition(name, &json!({ "type": "bridge", "bridge": bridge }));
            let children = Children::fixed(&[
                (DHCP_SERVER, servers),
                (ADDRESS_CLAIM, vec![claim("inside", "192.168.100.95")]),
                (NETWORK_ATTACHMENT, vec![leads("vlan", "br1"), leads("alias", bridge)]),
            ]);
            let taken = told(&new, &children).into_iter().find(|(key, _)| *key == names::TAKEN_ADDRESSES);
            (conflict(&new, &children, None).map(|problem| problem.path), taken.map(|(_, list)| list))
        };
        let range = Some("spec.leaseConfig.rangeStart".to_owned());
        assert_eq!(judged("br1"), (range, Some("192.168.100.95".to_owned())));
        assert_eq!(judged("br2"), (None, None), "another bridge is another network");
    }

    #[test]
    fn a_client_can_not_have_the_address_of_a_server() {
        let mut own = server("own", 1, 50, 99);
        own.spec.reservations = vec![causeway_api::DhcpReservation {
            mac: Some("02:00:00:00:00:01".into()),
            ip: "192.168.100.4".into(),
            ..causeway_api::DhcpReservation::default()
        }];
        let with = |claims| Children::fixed(&[(ADDRESS_CLAIM, claims)]);
        assert_eq!(conflict(&own, &with(vec![claim("inside", "192.168.100.60")]), None), None);
        let found = conflict(&own, &with(vec![claim("taken", "192.168.100.4")]), None).unwrap();
        assert!(found.message.contains("192.168.100.4 is that of ProxyServer lab/front"), "{found:?}");
    }

    #[test]
    fn who_may_not_use_the_network_has_nothing_of_it() {
        let mut stranger = server("stranger", 1, 50, 99);
        stranger.metadata.namespace = Some("far".into());
        stranger.spec.network_config.network_attachment_namespace = Some("lab".into());
        let own = server("own", 2, 50, 99);
        let children = cache(&[&stranger, &own], &[], &[]);
        assert!(conflict(&own, &children, None).is_some(), "where nobody needs consent the older has it");
        assert_eq!(conflict(&own, &children, Some(&Grants::default())), None);
    }

    #[test]
    fn servers_are_told_which_addresses_of_their_range_are_somebody_elses() {
        let claims = vec![
            claim("inside", "192.168.100.60"),
            claim("first", "192.168.100.50"),
            claim("outside", "192.168.100.4"),
            claim("six", "fd00::1"),
            claim("elsewhere", "192.168.100.61"),
        ];
        let told = told(&server("own", 1, 50, 99), &Children::fixed(&[(ADDRESS_CLAIM, claims)]));
        let taken = (names::TAKEN_ADDRESSES, "192.168.100.50,192.168.100.60".to_owned());
        assert!(told.contains(&taken), "{told:?}");
    }
}
