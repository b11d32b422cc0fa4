//! What the operator and the pods of the cluster's end agree on: the Secret by which they are told who they are, who may come,
//! what carriers were granted and what may be reached.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

/// Who they are on links, PEM.
const IDENTITY: &str = "identity.pem";
/// WireGuard's private key.
const WIREGUARD: &str = "wireguard.key";
/// All else, JSON.
const TOLD: &str = "told.json";

/// What the pods are told.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Who they are on links, PEM, with a private key.
    pub identity: String,
    /// WireGuard's private key.
    pub wireguard: Option<[u8; 32]>,
    /// What is no secret.
    pub open: Open,
}

/// What of it is no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// Who may come.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// What carriers were granted.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// What may be reached.
    #[serde(default)]
    pub bounds: Bounds,
}

/// A workstation that may come. Written as a list: there may be thousands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Peer {
    /// The uid of its object.
    pub uid: String,
    /// NAMESPACE/NAME.
    pub label: String,
    /// What the key of its certificates is known by; without it no link of it is taken.
    pub link_key: Option<[u8; 16]>,
    /// Its public key in WireGuard.
    pub key: [u8; 32],
    /// Its address in WireGuard.
    pub address: Option<IpAddr>,
}

type Written = (String, String, Option<String>, String, Option<IpAddr>);

impl From<Written> for Peer {
    fn from((uid, label, link_key, key, address): Written) -> Self {
        let link_key = link_key.and_then(|key| BASE64.decode(key).ok()?.try_into().ok());
        // A key that can't be read is nobody's.
        Self { uid, label, link_key, key: public_key(&key).unwrap_or_default(), address }
    }
}

impl From<Peer> for Written {
    fn from(peer: Peer) -> Self {
        let link_key = peer.link_key.map(|key| BASE64.encode(key));
        (peer.uid, peer.label, link_key, BASE64.encode(peer.key), peer.address)
    }
}

/// A public key of WireGuard as it is written.
pub fn public_key(text: &str) -> Option<[u8; 32]> {
    BASE64.decode(text).ok()?.try_into().ok()
}

/// What a carrier was granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// What the carrier is called on links.
    pub carrier: String,
    /// The Workstation's uid.
    pub workstation: String,
    /// An address behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

/// What workstations may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Further networks than those of Services and pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<IpNet>,
    /// Networks that are never reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<IpNet>,
    /// No Services.
    #[serde(default)]
    pub no_services: bool,
    /// No pods.
    #[serde(default)]
    pub no_pods: bool,
    /// Names that the cluster does not have are asked for outside.
    #[serde(default)]
    pub outside_names: bool,
}

/// A key is nobody's to read in a log.
impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Told").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Told {
    /// The entries of the Secret.
    pub fn entries(&self) -> BTreeMap<String, ByteString> {
        let open = serde_json::to_vec(&self.open).unwrap_or_default();
        let mut entries = BTreeMap::from([
            (IDENTITY.to_owned(), ByteString(self.identity.clone().into_bytes())),
            (TOLD.to_owned(), ByteString(open)),
        ]);
        entries.extend(self.wireguard.map(|key| (WIREGUARD.to_owned(), ByteString(key.to_vec()))));
        entries
    }

    /// What is in the entries of the Secret; none if that is not all there, or of another version.
    pub fn read(entries: &BTreeMap<String, ByteString>) -> Option<Self> {
        Some(Self {
            identity: String::from_utf8(entries.get(IDENTITY)?.0.clone()).ok()?,
            wireguard: entries.get(WIREGUARD).and_then(|key| key.0.clone().try_into().ok()),
            open: serde_json::from_slice(&entries.get(TOLD)?.0).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_thousands_fit() {
        let peer = |n: u32| Peer {
            uid: format!("7f6f0c51-5d5a-4b86-9f3e-{n:012}"),
            label: format!("a-namespace-of-some-length/workstation-{n}"),
            link_key: Some([8; 16]),
            key: [7; 32],
            address: Some(IpAddr::V4((0x0ad5_0000 + n).into())),
        };
        let grant = Grant { carrier: "carrier-1".into(), workstation: "u".into(), address: None, port: 3000 };
        let told = Told {
            identity: "pem".into(),
            wireguard: Some([9; 32]),
            open: Open {
                peers: (0..5000).map(peer).collect(),
                grants: vec![grant],
                bounds: Bounds::default(),
            },
        };
        let entries = told.entries();
        assert_eq!(Told::read(&entries), Some(told.clone()));
        let size: usize = entries.values().map(|entry| entry.0.len()).sum();
        assert!(size < 1 << 20, "{size}");
        assert!(!format!("{told:?}").contains("pem"));
        assert_eq!(Told::read(&BTreeMap::new()), None);
    }
}
