//! Addresses on network attachments: each belongs to one object in the cluster, whoever asks first. A claim is an object
//! whose name is made of the attachment and the address, so the API server itself sees to it that there is one. It goes
//! with its holder, and is free for others once no pod has the address any more.
//!
//! Of claims on two attachments that lead to the same network the older one counts. A machine on the network that nobody told
//! Kubernetes of is not seen here.

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
use crate::vlan::network::Networks;

/// A NetworkAttachmentDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What is known when addresses are claimed.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Without them every attachment may be used.
    pub(crate) grants: Option<&'a Grants>,
    pub(crate) children: &'a Children,
    pub(crate) networks: &'a Networks,
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
        view: View<'_>,
    ) -> Claimed {
        let View { grants, children, networks } = view;
        let name = AddressClaim::name_of(&attachment.name, address);
        let known = children.get(ADDRESS_CLAIM, &attachment.namespace, &name);
        let known: Option<AddressClaim> = known.and_then(|claim| typed(&claim));
        let own = known.as_ref().filter(|claim| is_of(claim, &holder.uid));
        for rival in rivals(holder, attachment, address, view) {
            match self.is_alive(&rival.spec.holder).await {
                Ok(true) if own.is_none_or(|own| age(&rival) < age(own)) => {
                    return Claimed::Held(format!(
                        "{}, by NetworkAttachmentDefinition {}/{} of the same network",
                        said(&rival.spec.holder),
                        rival.namespace().unwrap_or_default(),
                        rival.spec.network_attachment_name
                    ));
                }
                Ok(_) => {}
                // What is ours stays so until it is known to be another's.
                Err(_) if own.is_some() => {}
                Err(source) => return Claimed::Unknown(Error::ClaimAddress { address, source }),
            }
        }
        if own.is_some() {
            return Claimed::Ours;
        }
        // Its holder may be gone, and a pod of it still be on its way out. Anybody can write into a pod what networks it asks
        // for: it counts where somebody of its namespace may use the network.
        let is_there = |there: &Attachment| networks.are_one(there, attachment);
        let counts = |(pod, there): &(Arc<DynamicObject>, Attachment)| {
            !is_pod_of(pod, holder) && may_have(pod, there, grants)
        };
        if let Some((pod, _)) = pods_with(children, is_there, address).find(counts) {
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
            let is_used = pods_with(children, |there| *there == attachment, address).next().is_some();
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

/// Claims of others on the same address of the same network, by another attachment; the oldest first.
fn rivals(
    holder: &ClaimHolder,
    attachment: &Attachment,
    address: IpAddr,
    View { children, networks, .. }: View<'_>,
) -> Vec<AddressClaim> {
    let is_rival = |claim: &AddressClaim| {
        let is_there = |(there, claimed): (Attachment, IpAddr)| {
            claimed == address && there != *attachment && networks.are_one(&there, attachment)
        };
        claim.spec.holder.uid != holder.uid
            && claim.metadata.deletion_timestamp.is_none()
            && place(claim).is_some_and(is_there)
    };
    let mut rivals: Vec<_> = of(children).filter(is_rival).collect();
    rivals.sort_by_key(age);
    rivals
}

/// Which of two claims was there first; should they be of the same second, everybody agrees all the same.
fn age(claim: &AddressClaim) -> impl Ord + use<> {
    (claim.creation_timestamp().map(|time| time.0), claim.namespace(), claim.name_any())
}

/// The pods that were given an address on an attachment like this, with that attachment; also those that are about to end.
fn pods_with(
    children: &Children,
    is_there: impl Fn(&Attachment) -> bool,
    address: IpAddr,
) -> impl Iterator<Item = (Arc<DynamicObject>, Attachment)> {
    let place = |pod: Arc<DynamicObject>| {
        let phase = pod.data.pointer("/status/phase").and_then(Value::as_str);
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let (there, _) = networks(&pod).find(|(there, at)| *at == address && is_there(there))?;
        Some((pod, there))
    };
    children.all(POD).into_iter().filter_map(place).collect::<Vec<_>>().into_iter()
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
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::framework::kinds::NETWORK_ATTACHMENT;
    use crate::vlan::network::tests::definition;

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
            let mut found: Vec<_> =
                pods_with(&children, |there| *there == attachment, address.parse().unwrap())
                    .map(|(pod, _)| pod.name_any())
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
        let address = "192.168.100.5".parse().unwrap();
        let (front, _) = pods_with(&children, |there| *there == attachment, address).next().unwrap();
        assert!(is_pod_of(&front, &holder));
        assert!(!is_pod_of(&front, &ClaimHolder { namespace: "other".into(), ..holder }));
    }

    #[test]
    fn an_address_is_claimed_once_on_a_network_whatever_leads_to_it() {
        let claim = |attachment: &str, holder: &str, second: u8| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "causeway.dev/v1alpha1", "kind": "AddressClaim",
                "metadata": {
                    "name": format!("{attachment}-{holder}"), "namespace": "lab",
                    "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
                },
                "spec": {
                    "networkAttachmentName": attachment, "address": "192.168.100.4",
                    "holder": { "kind": "ProxyServer", "namespace": "lab", "name": holder, "uid": holder },
                },
            }))
            .unwrap()
        };
        let bridge =
            |name: &str, bridge: &str| definition(name, &json!({ "type": "bridge", "bridge": bridge }));
        let children = Children::fixed(&[
            (ADDRESS_CLAIM, vec![claim("a", "one", 2), claim("b", "two", 1), claim("other", "three", 0)]),
            (NETWORK_ATTACHMENT, vec![bridge("a", "br1"), bridge("b", "br1"), bridge("other", "br2")]),
        ]);
        let networks = Networks::of(&children);
        let view = View { grants: None, children: &children, networks: &networks };
        let of = |uid: &str, attachment: &str| {
            let holder = ClaimHolder { uid: uid.into(), ..ClaimHolder::default() };
            let attachment = Attachment { namespace: "lab".into(), name: attachment.into() };
            let rivals = rivals(&holder, &attachment, "192.168.100.4".parse().unwrap(), view);
            rivals.into_iter().map(|claim| claim.spec.holder.uid).collect::<Vec<_>>()
        };
        assert_eq!(of("one", "a"), ["two"]);
        assert_eq!(of("two", "b"), ["one"]);
        assert_eq!(of("four", "a"), ["two"], "that of its own attachment is no other network's");
        assert_eq!(of("three", "other"), [""; 0]);
        let claims: HashMap<_, _> =
            super::of(&children).map(|claim| (claim.spec.holder.uid.clone(), claim)).collect();
        assert!(age(&claims["two"]) < age(&claims["one"]), "the older counts");
    }
}
