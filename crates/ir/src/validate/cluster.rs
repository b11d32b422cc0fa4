//! Endpoints that are there twice or that their cluster can't reach, and names that no certificate has.

use std::collections::HashMap;
use std::net::IpAddr;

use super::Findings;
use crate::tls::UpstreamTls;
use crate::{Address, Cluster, Pattern, SubjectName, Transport};

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
    if let Transport::Tls(tls) = &cluster.transport {
        check_tls(found, &|| format!("{}.transport.tls", path()), tls);
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

/// Names that a certificate can have.
fn check_tls(found: &mut Findings, path: &dyn Fn() -> String, tls: &UpstreamTls) {
    if let Some(name) = &tls.server_name
        && name.parse::<IpAddr>().is_err()
        && !matches!(Pattern::parse(name), Ok(Pattern::Exact(_)))
    {
        let message = format!("`{name}` is not a server name: write a host's name or an address");
        found.add(format!("{}.serverName", path()), message);
    }
    for (n, name) in tls.subject_names.iter().enumerate() {
        if let SubjectName::Uri(uri) = name
            && uri.split_once(':').is_none_or(|(scheme, rest)| scheme.is_empty() || rest.is_empty())
        {
            let message = format!("`{uri}` is not a URI: write one such as spiffe://cluster/ns/shop");
            found.add(format!("{}.subjectNames[{n}].uri", path()), message);
        }
    }
}
