//! Which Deployment has which address. An address stays where it is when others come, go or change places in the list, so
//! that such an edit touches no pod that is still wanted, and no address is ever asked for by two.

use std::net::IpAddr;

use causeway_api::ProxyServerSpec;
use causeway_translate::proxy::bare_address;

use super::observe::Observed;

/// An address of the spec and its Deployment's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    /// Counted from 0.
    pub(crate) index: usize,
    /// As in the spec; none on the pod network only.
    pub(crate) address: Option<&'a str>,
}

/// The place of each replica that the spec asks for, in the order of the spec.
pub(crate) fn places<'a>(spec: &'a ProxyServerSpec, observed: &Observed) -> Vec<Place<'a>> {
    let replicas = usize::try_from(spec.replicas).unwrap_or(1);
    let wanted: Vec<&str> = spec.network_config.addresses().take(replicas).collect();
    if wanted.is_empty() {
        return (0..replicas).map(|index| Place { index, address: None }).collect();
    }
    let held: Vec<Option<usize>> = wanted.iter().map(|address| holder(address, observed)).collect();
    let mut free = (0..).filter(|index| !held.contains(&Some(*index)));
    wanted
        .into_iter()
        .zip(&held)
        .filter_map(|(address, held)| {
            Some(Place { index: held.or_else(|| free.next())?, address: Some(address) })
        })
        .collect()
}

fn holder(address: &str, observed: &Observed) -> Option<usize> {
    let address = bare_address(address)?;
    let has = |text: &str| text.parse::<IpAddr>().is_ok_and(|own| own == address);
    let mut holders = observed.deployments.iter().filter(|state| state.address.as_deref().is_some_and(has));
    holders.next().map(|state| state.index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vlan::{fleet::DeploymentState, proxy::fixture};

    #[test]
    fn an_address_stays_with_its_deployment() {
        let observed = |addresses: &[&str]| Observed {
            deployments: addresses
                .iter()
                .enumerate()
                .map(|(index, address)| DeploymentState {
                    index,
                    address: Some((*address).to_owned()),
                    ..DeploymentState::default()
                })
                .collect(),
            ..Observed::default()
        };
        for (have, want, expected) in [
            (&[][..], &["10.0.0.4/24", "10.0.0.5"][..], &[0, 1][..]),
            (&["10.0.0.4", "10.0.0.5"], &["10.0.0.4/24", "10.0.0.5"], &[0, 1]),
            (&["10.0.0.4", "10.0.0.5"], &["10.0.0.5", "10.0.0.4"], &[1, 0]),
            (&["10.0.0.4", "10.0.0.5"], &["10.0.0.5"], &[1]),
            (&["10.0.0.4", "10.0.0.5"], &["10.0.0.9", "10.0.0.5"], &[0, 1]),
            (&["10.0.0.4", "10.0.0.5"], &["10.0.0.5", "10.0.0.9", "10.0.0.8"], &[1, 0, 2]),
        ] {
            let network = json!({ "serverIP": want[0], "additionalServerIPs": want[1..] });
            let proxy = fixture::proxy(&json!({ "replicas": want.len(), "networkConfig": network }));
            let found: Vec<_> =
                places(&proxy.spec, &observed(have)).iter().map(|place| place.index).collect();
            assert_eq!(found, expected, "{have:?} to {want:?}");
        }
        let proxy = fixture::proxy(&json!({ "replicas": 2, "networkConfig": { "serverIP": null } }));
        let nowhere = [0, 1].map(|index| Place { index, address: None });
        assert_eq!(places(&proxy.spec, &observed(&[])), nowhere, "the pod network has an address for each");
    }
}
