//! What the operator must not lose and nobody else may see: the authority of links, the key that originals are sealed with, and
//! WireGuard's private key. In one Secret of the operator's namespace, which everything of the cluster's end belongs to.

use std::sync::Arc;

use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use causeway_api::names;
use causeway_link::Authority;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::api::DynamicObject;

use super::seal::Sealer;
use crate::framework::{
    apply::{self, Action, Applier, Owner, Wanted},
    children::{Children, typed},
    kinds::SECRET,
};

const AUTHORITY: &str = "authority.pem";
const SEAL: &str = "seal.key";
const WIREGUARD: &str = "wireguard.key";

/// The name of the Secret.
pub(crate) fn secret_name() -> String {
    format!("{}-authority", names::STOWAWAY)
}

/// The keys of the operator.
pub(crate) struct Keys {
    /// Signs who is who on links.
    pub(crate) authority: Authority,
    /// Proves originals.
    pub(crate) sealer: Sealer,
    /// WireGuard's private key.
    pub(crate) wireguard: [u8; 32],
    /// WireGuard's public key, as it is written.
    pub(crate) wireguard_public: String,
    /// Whom the objects of the cluster's end belong to.
    pub(crate) owner: Owner,
    object: Arc<DynamicObject>,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The Secret could not be made, or is somebody else's.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The Secret holds something else.
    #[error("Secret {0} does not hold the keys of workstations: delete it, and they are made anew")]
    Damaged(String),
    /// No keys could be made.
    #[error("no keys could be made")]
    Make,
}

impl Keys {
    /// The keys, made if there are none and they are `wanted`.
    pub(crate) async fn get(
        applier: &Applier,
        namespace: &str,
        wanted: bool,
        children: &Children,
    ) -> Result<Option<Arc<Self>>, Error> {
        let name = secret_name();
        let found = match children.get(SECRET, namespace, &name) {
            Some(found) => found,
            None if !wanted => return Ok(None),
            None => {
                let secret = make(&name).ok_or(Error::Make)?;
                // The caches may be behind, or the Secret has lost its label: what is there is never replaced.
                let wanted = Wanted::new(SECRET, &secret).once();
                match applier.found(&Owner::nobody(namespace), &wanted, children).await {
                    Ok(Action::Unchanged | Action::Waiting | Action::Deleted) => return Ok(None),
                    Ok(Action::Applied(made)) => made,
                    // Somebody was quicker.
                    Err(apply::Error::Apply { source: kube::Error::Api(answer), .. })
                        if answer.code == 409 =>
                    {
                        return Ok(None);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Self::read(&found)
            .map(|keys| Some(Arc::new(keys)))
            .ok_or(Error::Damaged(format!("{namespace}/{name}")))
    }

    /// Such as are made.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let mut secret = serde_json::to_value(make("keys").unwrap()).unwrap();
        secret["metadata"]["uid"] = "keys".into();
        secret["metadata"]["namespace"] = "causeway-system".into();
        Self::read(&Arc::new(serde_json::from_value(secret).unwrap())).unwrap()
    }

    fn read(object: &Arc<DynamicObject>) -> Option<Self> {
        let secret: Secret = typed(object)?;
        let entry = |name: &str| secret.data.as_ref()?.get(name).map(|ByteString(bytes)| bytes.clone());
        let authority = Authority::from_pem(&String::from_utf8(entry(AUTHORITY)?).ok()?).ok()?;
        let seal = entry(SEAL).filter(|key| key.len() == 32)?;
        let wireguard: [u8; 32] = entry(WIREGUARD)?.try_into().ok()?;
        let public = PrivateKey::from_private_key(&X25519, &wireguard).ok()?.compute_public_key().ok()?;
        Some(Self {
            authority,
            sealer: Sealer::new(&seal),
            wireguard,
            wireguard_public: BASE64.encode(public.as_ref()),
            owner: Owner::of_dynamic(object, &SECRET.resource())?,
            object: object.clone(),
        })
    }

    /// Removes them, and with them all of the cluster's end.
    pub(crate) async fn remove(&self, applier: &Applier) -> Result<(), apply::Error> {
        applier.delete(SECRET, &self.object).await.map(drop)
    }
}

fn make(name: &str) -> Option<Secret> {
    let random = || {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).ok().map(|()| bytes)
    };
    let mut wireguard = random()?;
    // As every implementation of X25519 does before use; so the text is the same everywhere.
    wireguard[0] &= 0xf8;
    wireguard[31] = (wireguard[31] & 0x7f) | 0x40;
    let entries = [
        (AUTHORITY.to_owned(), ByteString(Authority::new().ok()?.to_pem().into_bytes())),
        (SEAL.to_owned(), ByteString(random()?.to_vec())),
        (WIREGUARD.to_owned(), ByteString(wireguard.to_vec())),
    ];
    let labels = [(names::LABEL_OWNER_KIND.to_owned(), super::stowaway::OWNER_KIND.to_owned())];
    Some(Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(entries.into()),
        ..Secret::default()
    })
}
