//! `AddressClaim`: who has an address on a network attachment. There is one of each name, so there is one holder.

use std::net::IpAddr;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which address, and who has it.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "AddressClaim",
    plural = "addressclaims",
    namespaced,
    doc = "Written by the operator, beside the NetworkAttachmentDefinition: which object has an address on that network.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Network", type_ = "string", json_path = ".spec.networkAttachmentName"),
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.holder.kind"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.holder.namespace"),
    printcolumn(name = "Name", type_ = "string", json_path = ".spec.holder.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AddressClaimSpec {
    /// NetworkAttachmentDefinition of this namespace.
    pub network_attachment_name: String,
    /// The address on that network.
    pub address: String,
    /// The object that has it.
    pub holder: ClaimHolder,
}

/// An object that has an address.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimHolder {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another object of the same name is another holder.
    pub uid: String,
}

impl AddressClaim {
    /// The name of the claim of an address: the same whoever makes it, and however the address is written.
    pub fn name_of(attachment: &str, address: IpAddr) -> String {
        match address.to_canonical() {
            IpAddr::V4(address) => format!("{attachment}.{address}"),
            IpAddr::V6(address) => {
                let groups = address.segments().map(|group| format!("{group:04x}"));
                format!("{attachment}.{}", groups.join("-"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_name() {
        for (address, name) in [
            ("192.168.100.4", "vlan-100.192.168.100.4"),
            ("::ffff:192.168.100.4", "vlan-100.192.168.100.4"),
            ("fd00:100::4", "vlan-100.fd00-0100-0000-0000-0000-0000-0000-0004"),
            ("FD00:100:0::4", "vlan-100.fd00-0100-0000-0000-0000-0000-0000-0004"),
        ] {
            assert_eq!(AddressClaim::name_of("vlan-100", address.parse().unwrap()), name, "{address}");
        }
    }
}
