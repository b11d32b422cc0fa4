//! NetworkPolicies.

use super::kind::Kind;
use super::print;
use crate::resource::Resource;

pub fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
            .short(&["netpol"])
            .columns(print::NETWORK_POLICY, print::network_policy)
            .build(),
    ]
}
