//! Which NetworkAttachmentDefinitions lead to the same network: addresses and ranges are taken on a network, by whatever name
//! it is attached to. What the first plugin of a definition says is what counts: the bridge, or the interface below, and the
//! VLAN. Of plugins that are not known here, each definition is a network of its own, and so it is where definitions are for
//! different nodes.

use std::collections::HashMap;

use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

use super::claims::Attachment;
use crate::framework::{children::Children, kinds::NETWORK_ATTACHMENT};

/// Which nodes a definition is for.
const NODE_SELECTOR: &str = "k8s.v1.cni.cncf.io/nodeSelector";

/// What an attachment leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Network {
    kind: &'static str,
    /// A bridge or an interface of the nodes.
    name: String,
    vlan: u64,
    nodes: Option<String>,
}

/// The networks of all attachments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks(HashMap<(String, String), Network>);

impl Networks {
    /// Of the definitions that there are.
    pub(crate) fn of(children: &Children) -> Self {
        let network = |definition: &DynamicObject| {
            let nodes = definition.annotations().get(NODE_SELECTOR).cloned();
            let config = definition.data.pointer("/spec/config")?.as_str()?;
            let network = Network { nodes, ..network(config)? };
            Some(((definition.namespace().unwrap_or_default(), definition.name_any()), network))
        };
        let all = children.all(NETWORK_ATTACHMENT);
        Self(all.iter().filter_map(|definition| network(definition)).collect())
    }

    /// Whether both lead to the same network.
    pub(crate) fn are_one(&self, one: &Attachment, other: &Attachment) -> bool {
        let of = |at: &Attachment| self.0.get(&(at.namespace.clone(), at.name.clone()));
        one == other || of(one).is_some_and(|network| Some(network) == of(other))
    }
}

/// The network of a CNI configuration, for all nodes; none if it is not known which that is.
fn network(config: &str) -> Option<Network> {
    let whole: Value = serde_json::from_str(config).ok()?;
    let plugin = whole.pointer("/plugins/0").unwrap_or(&whole);
    let text = |field: &str| plugin[field].as_str().unwrap_or_default().to_owned();
    let number = |field: &str| plugin[field].as_u64().unwrap_or_default();
    let (kind, name, vlan) = match plugin["type"].as_str()? {
        "bridge" => {
            let name = Some(text("bridge")).filter(|name| !name.is_empty());
            // The plugin's own default.
            ("bridge", name.unwrap_or_else(|| "cni0".to_owned()), number("vlan"))
        }
        "ovs" => ("ovs", text("bridge"), number("vlan")),
        // Without a name it is the interface of the default route.
        "macvlan" | "ipvlan" if plugin["linkInContainer"] != true => ("interface", text("master"), 0),
        "vlan" if plugin["linkInContainer"] != true => ("interface", text("master"), number("vlanId")),
        _ => return None,
    };
    Some(Network { kind, name, vlan, nodes: None })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A definition in namespace `lab` with this configuration.
    pub(crate) fn definition(name: &str, config: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": { "name": name, "namespace": "lab" }, "spec": { "config": config.to_string() },
        }))
        .unwrap()
    }

    #[test]
    fn a_network_is_known_by_what_it_is_made_of() {
        let mut elsewhere = definition("elsewhere", &json!({ "type": "bridge", "bridge": "br1" }));
        elsewhere.annotations_mut().insert(NODE_SELECTOR.to_owned(), "rack=2".to_owned());
        let definitions = vec![
            definition(
                "a",
                &json!({ "cniVersion": "1.0.0", "name": "a", "type": "bridge", "bridge": "br1" }),
            ),
            definition(
                "b",
                &json!({ "name": "b", "plugins": [{ "type": "bridge", "bridge": "br1" }, { "type": "tuning" }] }),
            ),
            definition("tagged", &json!({ "type": "bridge", "bridge": "br1", "vlan": 7 })),
            definition("first", &json!({ "type": "macvlan", "master": "eth1" })),
            definition("second", &json!({ "type": "ipvlan", "master": "eth1", "mode": "l2" })),
            definition("seven", &json!({ "type": "vlan", "master": "eth1", "vlanId": 7 })),
            definition("odd", &json!({ "type": "sriov" })),
            definition("even", &json!({ "type": "sriov" })),
            definition("rubbish", &json!("{")),
            elsewhere,
        ];
        let networks = Networks::of(&Children::fixed(&[(NETWORK_ATTACHMENT, definitions)]));
        let at = |name: &str| Attachment { namespace: "lab".into(), name: name.into() };
        for (one, other, are_one) in [
            ("a", "b", true),
            ("a", "a", true),
            ("a", "tagged", false),
            ("a", "elsewhere", false),
            ("first", "second", true),
            ("first", "seven", false),
            ("odd", "even", false),
            ("odd", "odd", true),
            ("rubbish", "rubbish", true),
            ("missing", "missing", true),
            ("missing", "a", false),
        ] {
            assert_eq!(networks.are_one(&at(one), &at(other)), are_one, "{one} {other}");
        }
    }
}
