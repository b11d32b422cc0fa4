//! Addresses on network attachments: each belongs to one object in the cluster, whoever asks first. A claim is an object
//! whose name is made of the attachment and the address, so the API server itself sees to it that there is one. It goes
//! with its holder, and is free for others once no pod has the address any more.
//!
//! Two attachments may lead to the same network: that is not seen here, and neither is a machine on the network that
//! nobody told Kubernetes of.

use std::{net::IpAddr, sync::Arc};

use causeway_api::{AddressClaim, AddressClaimSpec, ClaimHolder, names};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions},
};
use serde_json::Value;

use crate::framework::{
    apply::{Owner, Wanted},
    children::{ChildKind, Children, dynamic_api, typed},
    error::Error,
    kinds::{ADDRESS_CLAIM, POD, own},
};
use crate::grants::{Grants, Target, Users};

/// A NetworkAttachmentDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What became of a claim.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// The address is ours.
    Ours,
    /// Somebody else has it: who.
    Held(String),
    /// It could not be found out.
    Unknown(Error),
}

/// Makes and releases claims.
#[derive(Clone)]
pub(crate) struct Claims {
    client: Client,
    manager: &'static str,
}

impl Claims {
    /// Claims that are written as `manager`.
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Claims an address for `holder`, which is `owner`. What is ours already costs nothing.
    pub(crate) async fn take(
        &self,
        owner: &Owner,
        holder: &ClaimHolder,
        attachment: &Attachment,
        address: IpAddr,
        (grants, children): (Option<&Grants>, &Children),
    ) -> Claimed {
        let name = AddressClaim::name_of(&attachment.name, address);
        let known = children.get(ADDRESS_CLAIM, &attachment.namespace, &name);
        let known: Option<AddressClaim> = known.and_then(|claim| typed(&claim));
        if known.as_ref().is_some_and(|claim| is_of(claim, &holder.uid)) {
            return Claimed::Ours;
        }
        // Its holder may be gone, and a pod of it still be on its way out. Anybody can write into a pod what networks it asks
        // for: it counts where somebody of its namespace may use the network.
        let counts = |pod: &Arc<DynamicObject>| !is_pod_of(pod, holder) && may_have(pod, attachment, grants);
        if let Some(pod) = pods_with(children, attachment, address).find(counts) {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let by = known.filter(|claim| is_pod_of(&pod, &claim.spec.holder));
            return Claimed::Held(match by {
                Some(claim) => said(&claim.spec.holder),
                None => format!("pod {namespace}/{name}, which has not ended yet"),
            });
        }
        let claimed = async {
            // No write is tried that is known to be in vain.
            if let Some(claim) = known.filter(|claim| claim.metadata.deletion_timestamp.is_none())
                && self.is_alive(&claim.spec.holder).await?
            {
                return Ok(Claimed::Held(said(&claim.spec.holder)));
            }
            self.create(owner, holder, attachment, address).await
        };
        claimed.await.unwrap_or_else(|source| Claimed::Unknown(Error::ClaimAddress { address, source }))
    }

    async fn create(
        &self,
        owner: &Owner,
        holder: &ClaimHolder,
        attachment: &Attachment,
        address: IpAddr,
    ) -> Result<Claimed, kube::Error> {
        let api: Api<AddressClaim> = Api::namespaced(self.client.clone(), &attachment.namespace);
        let mut claim = AddressClaim::new(
            &AddressClaim::name_of(&attachment.name, address),
            AddressClaimSpec {
                network_attachment_name: attachment.name.clone(),
                address: address.to_canonical().to_string(),
                holder: holder.clone(),
            },
        );
        claim.metadata.namespace = Some(attachment.namespace.clone());
        let body = Value::Object(Wanted::new(ADDRESS_CLAIM, &claim).stamped(owner));
        let claims = dynamic_api(self.client.clone(), &attachment.namespace, &ADDRESS_CLAIM.resource());
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        // Twice, since a claim whose holder is gone is nobody's and is removed.
        for _ in 0..2 {
            let object: DynamicObject =
                serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
            match claims.create(&params, &object).await {
                Ok(_) => {
                    tracing::info!(%address, attachment = %attachment, "claimed an address");
                    return Ok(Claimed::Ours);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error),
            }
            let Some(there) = api.get_opt(&claim.name_any()).await? else { continue };
            if is_of(&there, &holder.uid) {
                return Ok(Claimed::Ours);
            }
            if self.is_alive(&there.spec.holder).await? {
                return Ok(Claimed::Held(said(&there.spec.holder)));
            }
            tracing::info!(claim = there.name_any(), holder = said(&there.spec.holder), "its holder is gone");
            self.delete(&there).await?;
        }
        Ok(Claimed::Held("another object, which asked at the same time".to_owned()))
    }

    /// Whether the object is there that a claim names.
    async fn is_alive(&self, holder: &ClaimHolder) -> Result<bool, kube::Error> {
        // Of a kind that nobody here knows, nobody here knows that it is gone.
        let Some(kind) = kind_of(holder) else { return Ok(true) };
        let api = dynamic_api(self.client.clone(), &holder.namespace, &kind.resource());
        let there = api.get_metadata_opt(&holder.name).await?;
        Ok(there.is_some_and(|there| there.metadata.uid.as_deref() == Some(&*holder.uid)))
    }

    /// Gives up what is claimed for this uid, other than `wanted`, and that no pod has any more.
    pub(crate) async fn release(
        &self,
        uid: &str,
        wanted: &[(Attachment, IpAddr)],
        children: &Children,
    ) -> Result<(), Error> {
        for claim in of(children).filter(|claim| is_of(claim, uid)) {
            let Some((attachment, address)) = place(&claim) else { continue };
            let is_used = pods_with(children, &attachment, address).next().is_some();
            if !is_used && !wanted.contains(&(attachment, address)) {
                self.delete(&claim).await.map_err(|source| Error::ClaimAddress { address, source })?;
            }
        }
        Ok(())
    }

    /// Gives up all that is claimed for this uid. Asks the API server: the caches may not know the latest.
    pub(crate) async fn release_all(&self, uid: &str) -> Result<(), Error> {
        let ours = ListParams::default().labels(&format!("{}={uid}", names::LABEL_INVENTORY));
        let all: Api<AddressClaim> = Api::all(self.client.clone());
        let failed = |source| Error::ListRemote { kind: ADDRESS_CLAIM.kind, source };
        for claim in all.list(&ours).await.map_err(failed)?.items {
            self.delete(&claim).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn delete(&self, claim: &AddressClaim) -> Result<(), kube::Error> {
        let api: Api<AddressClaim> =
            Api::namespaced(self.client.clone(), &claim.namespace().unwrap_or_default());
        let preconditions = Some(Preconditions { uid: claim.uid(), resource_version: None });
        match api.delete(&claim.name_any(), &DeleteParams { preconditions, ..DeleteParams::default() }).await
        {
            // One that is gone, or somebody else's by now, is not ours.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

impl Attachment {
    /// The one that these fields of an object name; it is in the object's namespace unless they say another.
    pub(crate) fn named(
        name: Option<&String>,
        namespace: Option<&String>,
        object: &impl Resource,
    ) -> Option<Self> {
        let namespace = namespace.or(object.meta().namespace.as_ref());
        Some(Self { namespace: namespace?.clone(), name: name?.clone() })
    }

    /// What consent names.
    pub(crate) fn target(&self) -> Target<'_> {
        Target { group: "k8s.cni.cncf.io", kind: "NetworkAttachmentDefinition", name: &self.name }
    }

    /// Whether these may use it; without `grants` everybody may.
    pub(crate) fn is_open_to(&self, users: Users<'_>, grants: Option<&Grants>) -> bool {
        grants.is_none_or(|grants| grants.permit_object(users, &self.namespace, self.target()))
    }
}

impl std::fmt::Display for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Every claim that is known.
pub(crate) fn of(children: &Children) -> impl Iterator<Item = AddressClaim> {
    children.all(ADDRESS_CLAIM).into_iter().filter_map(|claim| typed(&claim))
}

/// What a claim is of; none for one that makes no sense.
pub(crate) fn place(claim: &AddressClaim) -> Option<(Attachment, IpAddr)> {
    let attachment =
        Attachment { namespace: claim.namespace()?, name: claim.spec.network_attachment_name.clone() };
    Some((attachment, claim.spec.address.parse().ok()?))
}

fn is_of(claim: &AddressClaim, uid: &str) -> bool {
    claim.spec.holder.uid == uid && claim.metadata.deletion_timestamp.is_none()
}

/// A holder, in words.
pub(crate) fn said(holder: &ClaimHolder) -> String {
    format!("{} {}/{}", holder.kind, holder.namespace, holder.name)
}

fn kind_of(holder: &ClaimHolder) -> Option<ChildKind> {
    match holder.kind.as_str() {
        "ProxyServer" => Some(own("ProxyServer", "proxyservers")),
        "DNSServer" => Some(own("DNSServer", "dnsservers")),
        "DHCPServer" => Some(own("DHCPServer", "dhcpservers")),
        _ => None,
    }
}

/// The pods that were given an address on an attachment, also those that are about to end.
fn pods_with(
    children: &Children,
    attachment: &Attachment,
    address: IpAddr,
) -> impl Iterator<Item = Arc<DynamicObject>> {
    let has = move |pod: &Arc<DynamicObject>| {
        let phase = pod.data.pointer("/status/phase").and_then(Value::as_str);
        !matches!(phase, Some("Succeeded" | "Failed"))
            && networks(pod).any(|found| found == (attachment.clone(), address))
    };
    children.all(POD).into_iter().filter(has).collect::<Vec<_>>().into_iter()
}

/// The networks that a pod asks to be attached to, as this operator writes them.
fn networks(pod: &DynamicObject) -> impl Iterator<Item = (Attachment, IpAddr)> {
    let text = pod.annotations().get(names::ANNOTATION_NETWORKS).map_or("[]", String::as_str);
    let list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    list.into_iter().flat_map(|network| {
        let text = |key: &str| network[key].as_str().unwrap_or_default().to_owned();
        let attachment = Attachment { namespace: text("namespace"), name: text("name") };
        let addresses = network["ips"].as_array().cloned().unwrap_or_default();
        let parse = |address: Value| address.as_str()?.split('/').next()?.parse::<IpAddr>().ok();
        addresses
            .into_iter()
            .filter_map(parse)
            .map(move |address| (attachment.clone(), address.to_canonical()))
            .collect::<Vec<_>>()
    })
}

/// Whether the pod may be on the network, by the kind that it says it is of.
fn may_have(pod: &DynamicObject, attachment: &Attachment, grants: Option<&Grants>) -> bool {
    let kind = pod.labels().get(names::LABEL_OWNER_KIND).map_or("", String::as_str);
    let namespace = pod.namespace().unwrap_or_default();
    attachment.is_open_to(Users { group: names::GROUP, kind, namespace: &namespace }, grants)
}

fn is_pod_of(pod: &DynamicObject, holder: &ClaimHolder) -> bool {
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    pod.namespace().as_deref() == Some(&*holder.namespace)
        && label(names::LABEL_OWNER_NAME) == Some(&*holder.name)
        && label(names::LABEL_OWNER_KIND) == Some(&*holder.kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, owner: &str, networks: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "ten",
                "annotations": { "k8s.v1.cni.cncf.io/networks": networks },
                "labels": { "causeway.dev/owner-name": owner, "causeway.dev/owner-kind": "ProxyServer" },
            },
        }))
        .unwrap()
    }

    #[test]
    fn knows_which_pods_have_an_address() {
        let of = |ips: &str| format!(r#"[{{"name":"vlan","namespace":"edge","ips":[{ips}]}}]"#);
        let pods = vec![
            pod("one", "front", &of(r#""192.168.100.4/24""#)),
            pod("two", "front", &of(r#""192.168.100.5/24""#)),
            pod("three", "back", &of(r#""192.168.100.4""#)),
            pod("odd", "back", "vlan"),
        ];
        let children = Children::fixed(&[(POD, pods)]);
        let attachment = Attachment { namespace: "edge".into(), name: "vlan".into() };
        let found = |address: &str| {
            let mut found: Vec<_> = pods_with(&children, &attachment, address.parse().unwrap())
                .map(|pod| pod.name_any())
                .collect();
            found.sort();
            found
        };
        assert_eq!(found("192.168.100.4"), ["one", "three"]);
        assert_eq!(found("192.168.100.6"), [""; 0]);
        let holder = ClaimHolder {
            kind: "ProxyServer".into(),
            namespace: "ten".into(),
            name: "front".into(),
            uid: "u".into(),
        };
        let front = pods_with(&children, &attachment, "192.168.100.5".parse().unwrap()).next().unwrap();
        assert!(is_pod_of(&front, &holder));
        assert!(!is_pod_of(&front, &ClaimHolder { namespace: "other".into(), ..holder }));
    }
}
