//! Endpoints that are there twice or that their cluster can't reach.

use std::collections::HashMap;

use super::Findings;
use crate::{Address, Cluster, Transport};

/// Checks one cluster; `path` is only asked for when there is something to report.
pub(super) fn check(
    found: &mut Findings,
    path: &dyn Fn() -> String,
    cluster: &Cluster,
    is_link: impl Fn(&str) -> bool,
) {
    let behind_link = matches!(cluster.transport, Transport::Link(_));
    if let Transport::Link(name) = &cluster.transport
        && !is_link(name)
    {
        let message = format!("there is no link `{name}`: add it to links or correct the name");
        found.add(format!("{}.transport.link", path()), message);
    }
    // Most clusters have one endpoint, which has no double.
    let mut seen: HashMap<&Address, usize> = HashMap::new();
    let several = cluster.endpoints.len() > 1;
    for (e, endpoint) in cluster.endpoints.iter().enumerate() {
        let at = |e: usize| format!("{}.endpoints[{e}].address", path());
        match (&endpoint.address, behind_link) {
            (Address::Place(name), false) => {
                let message = format!(
                    "the place `{name}` lies behind a link: name the link in `transport`, or write an address and port"
                );
                found.add(at(e), message);
            }
            (Address::Unix(_), true) => {
                found.add(
                    at(e),
                    "a Unix socket can't lie behind a link: write a place or an address and port",
                );
            }
            _ => {}
        }
        if several && let Some(first) = seen.insert(&endpoint.address, e) {
            found.add(at(e), format!("{} is already {}", endpoint.address, at(first)));
        }
    }
}
