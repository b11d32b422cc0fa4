//! The virtual machines that a DHCP server serves: KubeVirt's, by their cards on its network.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_api::{DHCPServer, conditions::Reason};
use causeway_ir::dhcp::HardwareAddress;
use causeway_translate::dhcp::write_clients;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

use crate::{
    framework::{children::Children, finding::Finding, kinds::VIRTUAL_MACHINE_INSTANCE},
    vlan::{claims::Attachment, network::Networks, server::Server as _},
};

/// The most that is told of clients: a ConfigMap takes a mebibyte in all.
const LARGEST: usize = 800_000;

/// The cards of virtual machines on a server's network, in lines, and what is to be said of them.
pub(super) fn told(server: &DHCPServer, children: &Children) -> (Option<String>, Finding) {
    let Some(attachment) = server.attachment() else {
        let message = "clients: VirtualMachines are known by their network: write networkAttachmentName, too";
        return (None, Finding::no(Reason::InvalidSpec, message));
    };
    if children.served(VIRTUAL_MACHINE_INSTANCE).is_none() {
        let message = "this cluster has no VirtualMachineInstances, so nobody but who has a reservation is served: \
                       install KubeVirt, or write clients: All";
        return (None, Finding::no(Reason::NotFound, message));
    }
    let networks = Networks::of(children);
    let is_here = |there: &Attachment| networks.are_one(there, &attachment);
    let known = known(&children.all(VIRTUAL_MACHINE_INSTANCE), &is_here);
    let lines = write_clients(&known);
    if lines.len() > LARGEST {
        let message = format!("{} cards are more than servers can be told of", known.len());
        return (None, Finding::no(Reason::ComponentFailed, message));
    }
    let message = format!("{} cards of virtual machines on {attachment} are served", known.len());
    (Some(lines), Finding::yes(Reason::Resolved, message))
}

/// The cards on this network, each with the name of its machine: the oldest, should several say that it is theirs.
fn known(
    machines: &[Arc<DynamicObject>],
    is_here: &impl Fn(&Attachment) -> bool,
) -> BTreeMap<HardwareAddress, String> {
    let mut machines: Vec<_> = machines.iter().collect();
    let age = |machine: &DynamicObject| machine.creation_timestamp().map(|time| time.0);
    machines.sort_by_key(|machine| (age(machine), machine.namespace(), machine.name_any()));
    let mut known = BTreeMap::new();
    for (card, name) in machines.into_iter().flat_map(|machine| cards(machine, is_here)) {
        known.entry(card).or_insert(name);
    }
    known
}

/// The cards of a virtual machine on this network, each with the machine's name.
fn cards(machine: &DynamicObject, is_here: &impl Fn(&Attachment) -> bool) -> Vec<(HardwareAddress, String)> {
    let list =
        |path: &str| machine.data.pointer(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let namespace = machine.namespace().unwrap_or_default();
    let is_on_it = |network: &&Value| {
        let name = network.pointer("/multus/networkName").and_then(Value::as_str);
        name.is_some_and(|name| {
            let (namespace, name) = name.split_once('/').unwrap_or((&namespace, name));
            is_here(&Attachment { namespace: namespace.to_owned(), name: name.to_owned() })
        })
    };
    let here: Vec<&str> = list("/spec/networks")
        .iter()
        .filter(is_on_it)
        .filter_map(|network| network["name"].as_str())
        .collect();
    let reported = list("/status/interfaces").iter().map(|card| (card, "mac"));
    let written = list("/spec/domain/devices/interfaces").iter().map(|card| (card, "macAddress"));
    let on_it = |card: &Value| card["name"].as_str().is_some_and(|name| here.contains(&name));
    let cards = reported.chain(written).filter(|(card, _)| on_it(card));
    cards
        .filter_map(|(card, field)| HardwareAddress::parse(card[field].as_str()?).ok())
        .map(|card| (card, machine.name_any()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machines_cards_on_the_network_are_known_by_its_name() {
        let machine: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": "vm-1", "namespace": "lab" },
            "spec": {
                "networks": [
                    { "name": "default", "pod": {} },
                    { "name": "near", "multus": { "networkName": "vlan" } },
                    { "name": "far", "multus": { "networkName": "edge/vlan" } },
                ],
                "domain": { "devices": { "interfaces": [{ "name": "far", "macAddress": "02:00:00:00:00:03" }] } },
            },
            "status": { "interfaces": [
                { "name": "default", "mac": "02:00:00:00:00:01" }, { "name": "near", "mac": "02:00:00:00:00:02" },
                { "name": "far", "mac": "02:00:00:00:00:03" }, { "mac": "02:00:00:00:00:04" },
            ] },
        }))
        .unwrap();
        let on = |namespace: &str| {
            let attachment = Attachment { namespace: namespace.into(), name: "vlan".into() };
            let mut found: Vec<_> = cards(&machine, &|there: &Attachment| *there == attachment)
                .into_iter()
                .map(|(card, name)| format!("{card} {name}"))
                .collect();
            found.dedup();
            found
        };
        assert_eq!(on("lab"), ["02:00:00:00:00:02 vm-1"]);
        assert_eq!(on("edge"), ["02:00:00:00:00:03 vm-1"]);
        assert_eq!(on("other"), [""; 0]);
    }

    #[test]
    fn a_card_is_the_oldest_machines() {
        let machine = |name: &str, age: u8| -> Arc<DynamicObject> {
            Arc::new(
                serde_json::from_value(json!({
                    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                    "metadata": {
                        "name": name, "namespace": "lab", "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"),
                    },
                    "spec": {
                        "networks": [{ "name": "near", "multus": { "networkName": "vlan" } }],
                        "domain": { "devices": { "interfaces": [{ "name": "near", "macAddress": "02:00:00:00:00:01" }] } },
                    },
                }))
                .unwrap(),
            )
        };
        let attachment = Attachment { namespace: "lab".into(), name: "vlan".into() };
        let (old, new) = (machine("old", 1), machine("a-new", 2));
        for machines in [[old.clone(), new.clone()], [new, old]] {
            let known = known(&machines, &|there: &Attachment| *there == attachment);
            assert_eq!(known.values().collect::<Vec<_>>(), ["old"]);
        }
    }
}
