//! Which of an object's addresses its pods may have: those that are claimed for it, on an attachment of its own namespace or
//! of one that lets it. A pod that runs with an address that is not its object's any more is ended: two with one address
//! serve nobody.

use std::net::IpAddr;

use causeway_api::{ClaimHolder, conditions::Reason, names};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Resource, ResourceExt};

use crate::{
    framework::{apply::Owner, children::Children, error::Error, report},
    grants::{Grants, Users, advice_for},
    vlan::{
        claims::{Attachment, Claimed, Claims, View},
        fleet::{DeploymentState, server_ip},
        network::Networks,
    },
};

/// The addresses that an object asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asks {
    holder: ClaimHolder,
    /// None for an object on no attachment.
    pub(crate) attachment: Option<Attachment>,
    addresses: Vec<IpAddr>,
}

/// An address that no pod gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withheld {
    pub(crate) address: IpAddr,
    /// The condition reason.
    pub(crate) reason: Reason,
    /// Why, and what to do.
    pub(crate) message: String,
    /// It is not known whose it is: what runs with it runs on.
    pub(crate) is_unknown: bool,
}

/// What was found out about an object's addresses.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Those that no pod gets.
    pub(crate) withheld: Vec<Withheld>,
    /// Those that are asked for.
    pub(crate) wanted: Vec<(Attachment, IpAddr)>,
    /// Why a claim could not be made.
    pub(crate) error: Option<Error>,
}

impl Asks {
    /// What this object asks for.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(
        object: &K,
        attachment: Option<Attachment>,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        let holder = ClaimHolder {
            kind: K::kind(&()).into_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        };
        let addresses = addresses.into_iter().map(|address| address.to_canonical()).collect();
        Self { holder, attachment, addresses }
    }

    /// Whether it asks for this one.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.attachment.is_some() && self.addresses.contains(&address)
    }

    /// Whether they are claimed in another namespace, where no garbage collector follows the object.
    pub(crate) fn are_elsewhere(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.namespace != self.holder.namespace)
    }

    /// Claims them. Without `grants` every attachment may be used.
    pub(crate) async fn claim(
        &self,
        claims: &Claims,
        owner: &Owner,
        grants: Option<&Grants>,
        children: &Children,
    ) -> Addresses {
        let Some(attachment) = &self.attachment else { return Addresses::default() };
        let wanted = &self.addresses;
        if let Some(message) = self.refusal(grants) {
            let withhold = |address: &IpAddr| {
                let (reason, message) = (Reason::RefNotPermitted, message.clone());
                Withheld { address: *address, reason, message, is_unknown: false }
            };
            return Addresses { withheld: wanted.iter().map(withhold).collect(), ..Addresses::default() };
        }
        let networks = Networks::of(children);
        let view = View { grants, children, networks: &networks };
        let mut addresses = Addresses::default();
        for address in wanted.iter().copied() {
            let withheld = match claims.take(owner, &self.holder, attachment, address, view).await {
                Claimed::Ours => None,
                Claimed::Held(by) => Some((
                    Reason::Conflict,
                    format!(
                        "{address} on {attachment} belongs to {by}: write another address, or have it given up there"
                    ),
                )),
                Claimed::Unknown(error) => {
                    let message = report::chain(&error);
                    addresses.error = Some(error);
                    Some((Reason::ComponentFailed, message))
                }
            };
            let is_unknown = matches!(withheld, Some((Reason::ComponentFailed, _)));
            addresses.withheld.extend(withheld.map(|(reason, message)| Withheld {
                address,
                reason,
                message,
                is_unknown,
            }));
            addresses.wanted.push((attachment.clone(), address));
        }
        addresses
    }

    /// Why the attachment may not be used.
    fn refusal(&self, grants: Option<&Grants>) -> Option<String> {
        let attachment = self.attachment.as_ref()?;
        let ClaimHolder { kind, namespace, .. } = &self.holder;
        let users = Users { group: names::GROUP, kind, namespace };
        let is_refused = !attachment.is_open_to(users, grants);
        is_refused.then(|| advice_for(users, &attachment.namespace, attachment.target()))
    }
}

impl Addresses {
    /// Takes the Deployments of addresses that no pod gets out of what is desired. The names of those that stay as they
    /// are, if they are there.
    pub(crate) fn withhold(&self, deployments: &mut Vec<Deployment>) -> Vec<String> {
        let is_withheld = |deployment: &Deployment| {
            let address = server_ip(deployment)?.parse::<IpAddr>().ok()?.to_canonical();
            self.withheld.iter().find(|withheld| withheld.address == address)
        };
        let unknown = deployments
            .iter()
            .filter(|deployment| is_withheld(deployment).is_some_and(|withheld| withheld.is_unknown));
        let unknown = unknown.map(ResourceExt::name_any).collect();
        deployments.retain(|deployment| is_withheld(deployment).is_none());
        unknown
    }

    /// Whether a Deployment runs with an address that is somebody else's.
    pub(crate) fn takes_away(&self, name: &str, deployments: &[DeploymentState]) -> bool {
        let state = deployments.iter().find(|state| state.name == name);
        let address = state.and_then(|state| state.address.as_ref()?.parse::<IpAddr>().ok());
        let is_held = |withheld: &Withheld| Some(withheld.address) == address.map(|own| own.to_canonical());
        self.withheld.iter().any(|withheld| !withheld.is_unknown && is_held(withheld))
    }

    /// Whether time alone may change something: a pod that has the address has not ended yet.
    pub(crate) fn waits(&self) -> bool {
        self.withheld.iter().any(|withheld| withheld.reason == Reason::Conflict)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vlan::proxy::{Settings, asks, desired::desired, fixture, observe::Observed};

    #[test]
    fn a_foreign_attachment_needs_consent() {
        let network = json!({
            "serverIP": "192.168.100.4", "networkAttachmentName": "vlan", "networkAttachmentNamespace": "tools",
        });
        let proxy = fixture::proxy(&json!({ "networkConfig": network }));
        let there = asks(&proxy, &Observed::default());
        assert_eq!(there.attachment.as_ref().unwrap().to_string(), "tools/vlan");
        assert_eq!(there.refusal(None), None);
        let services = fixture::grants(None);
        let refused = there.refusal(Some(&services)).unwrap();
        assert!(
            refused.contains("use its NetworkAttachmentDefinition vlan: create a ReferenceGrant in tools"),
            "{refused}"
        );
        let home = asks(&fixture::proxy(&json!({})), &Observed::default());
        assert_eq!(home.refusal(Some(&Grants::default())), None);
    }

    #[test]
    fn what_is_withheld_is_not_made() {
        let network = json!({
            "serverIP": "192.168.100.4/24", "additionalServerIPs": ["192.168.100.5/24", "192.168.100.6/24"],
            "networkAttachmentName": "vlan",
        });
        let proxy = fixture::proxy(&json!({ "replicas": 3, "networkConfig": network }));
        let mut desired = desired(&proxy, &Settings::default(), None, None, &Observed::default());
        let withhold = |address: &str, is_unknown| Withheld {
            address: address.parse().unwrap(),
            reason: Reason::Conflict,
            message: String::new(),
            is_unknown,
        };
        let addresses = Addresses {
            withheld: vec![withhold("192.168.100.4", false), withhold("192.168.100.6", true)],
            ..Addresses::default()
        };
        assert_eq!(addresses.withhold(&mut desired.deployments), ["lab-3"]);
        let left: Vec<_> = desired.deployments.iter().map(ResourceExt::name_any).collect();
        assert_eq!(left, ["lab-2"]);
    }
}
