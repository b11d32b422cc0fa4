//! What carriers may have of whose machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::InterceptRequest;
use causeway_translate::intercept::Accepted;
use causeway_translate::intercept::names::carrier as carrier_link_name;
use causeway_translate::stowaway_pod::{Grant, Told};
use kube::ResourceExt as _;

use super::Pass;
use crate::intercepts::carrier::{Carrier, Root};
use crate::intercepts::neighbourhood::Namespace;
use crate::intercepts::workstations::Judged;

impl Pass<'_> {
    /// What carriers were granted that can't be judged for the moment, as their namespace is not read yet or they can't be made. It is
    /// not taken back: what is open there would end.
    pub(super) fn unjudged(
        &self,
        before: Option<&Told>,
        judged: &[Judged],
        known: &BTreeMap<String, Arc<Namespace>>,
        carriers: &[Carrier<'_>],
        made: &[Option<Root>],
    ) -> Vec<Grant> {
        let is_unmade = |root: &Root| {
            let mut both = carriers.iter().zip(made);
            both.any(|(carrier, made)| {
                made.is_none() && carrier.namespace() == root.namespace() && root.of() == Some(carrier.of())
            })
        };
        let roots = self.roots.iter().filter(|root| !root.is_leaving());
        let names: BTreeSet<String> = roots
            .filter(|root| !known.contains_key(&root.namespace()) || is_unmade(root))
            .map(|root| carrier_link_name(&root.uid()))
            .collect();
        let peers: BTreeSet<&str> =
            judged.iter().filter_map(|one| one.peer()).map(|peer| peer.uid.as_str()).collect();
        let told = before.into_iter().flat_map(|told| &told.open.grants);
        told.filter(|grant| names.contains(&grant.carrier) && peers.contains(grant.workstation.as_str()))
            .cloned()
            .collect()
    }
}

/// What carriers are granted, besides what some keep.
pub(super) fn grants(carriers: &[Carrier<'_>], roots: &[Option<Root>], kept: Vec<Grant>) -> Vec<Grant> {
    let made = carriers.iter().zip(roots).filter_map(|(carrier, root)| Some((carrier, root.as_ref()?)));
    let mut grants: Vec<Grant> = made
        .flat_map(|(carrier, root)| {
            carrier.deliveries().iter().map(|delivery| Grant {
                carrier: carrier_link_name(&root.uid()),
                workstation: delivery.workstation.clone(),
                address: delivery.address,
                port: delivery.port,
            })
        })
        .chain(kept)
        .collect();
    grants.sort();
    grants.dedup();
    grants
}

/// What one carrier of a request will be granted for it, whatever the carrier is called: all uids are of one length.
pub(super) fn likely(request: &InterceptRequest, accepted: &Accepted) -> Grant {
    Grant {
        carrier: carrier_link_name(&request.uid().unwrap_or_default()),
        workstation: accepted.workstation_uid.clone(),
        address: request.spec.destination_ip.as_deref().and_then(|text| text.parse().ok()),
        port: request.spec.destination_port,
    }
}
