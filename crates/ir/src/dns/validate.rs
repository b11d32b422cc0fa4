//! What only shows in the whole of a DNS plan.

mod zone;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::{DnsPlan, Upstream, View};
use crate::server_name::normalise;
use crate::{Problem, Size, networks};

/// Less memory than this holds next to nothing, since it is divided between many parts.
const SMALLEST_CACHE: u64 = 256 << 10;

impl DnsPlan {
    /// Everything that makes this plan impossible to run; empty when it is fine.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut add = |path: String, message: String| found.push(Problem { path, message });
        if self.binds.is_empty() {
            add(
                "binds".into(),
                "nobody could ask: write at least one address and port, like 10.0.0.2:53".into(),
            );
        }
        for (i, bind) in self.binds.iter().enumerate() {
            if let Some(first) = self.binds[..i].iter().position(|other| is_taken(*other, *bind)) {
                let other = self.binds[first];
                add(
                    format!("binds[{i}]"),
                    format!("{bind} is taken by binds[{first}], {other}: remove one of them"),
                );
            }
            if bind.ip().is_multicast() {
                add(
                    format!("binds[{i}]"),
                    format!("{bind} is not an address of a host: write one of this host's"),
                );
            }
        }
        let mut names = HashMap::new();
        for (i, view) in self.views.iter().enumerate() {
            if let Some(first) = names.insert(view.name.as_str(), i) {
                let message = format!("`{}` is already the name of views[{first}]: write another", view.name);
                add(format!("views[{i}].name"), message);
            }
            if let Some(first) = self.views[..i].iter().position(|other| covers(other, view)) {
                let message = format!(
                    "no client gets this view, since views[{first}] has all of them: write it before that one"
                );
                add(format!("views[{i}].sources"), message);
            }
            check_view(&mut add, &format!("views[{i}]"), view);
        }
        for i in 0..self.forward.upstreams.len() {
            self.check_upstream(&mut add, i);
        }
        let size = self.cache.size.bytes();
        if (1..SMALLEST_CACHE).contains(&size) {
            let least = Size::from_mebibytes(1);
            let message = format!(
                "{} holds next to nothing: write at least {least}, or 0 to keep no answers",
                self.cache.size
            );
            add("cache.size".into(), message);
        }
        found
    }

    /// What runs, but perhaps not as its author thinks.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        let mut add = |path: String, message: String| found.push(Problem { path, message });
        if self.views.is_empty() {
            add(
                "views".into(),
                "every client is refused: write a view with the networks of those who may ask".into(),
            );
        }
        for (i, view) in self.views.iter().enumerate() {
            for (j, network) in view.recursion.iter().flatten().enumerate() {
                if network.prefix_len() == 0 {
                    let message = format!(
                        "{network} lets anybody ask for any name, which is used to attack others: list the networks of \
                         your clients"
                    );
                    add(format!("views[{i}].recursion[{j}]"), message);
                }
            }
            let recursion = view.recursion.as_deref().unwrap_or_default();
            for (field, list) in
                [("sources", &view.sources[..]), ("recursion", recursion), ("reverse", &view.reverse)]
            {
                for (j, network) in list.iter().enumerate() {
                    if let Some(counts) = networks::truncated(*network) {
                        let message =
                            format!("{network} counts as {counts}: write that if it is what is meant");
                        add(format!("views[{i}].{field}[{j}]"), message);
                    }
                }
            }
        }
        found
    }

    fn check_upstream(&self, add: &mut impl FnMut(String, String), i: usize) {
        let Upstream { address, tls_server_name, tls_ca_file } = &self.forward.upstreams[i];
        let path = format!("forward.upstreams[{i}]");
        if let Some(bind) = self.binds.iter().find(|bind| reaches(**bind, *address)) {
            let message = format!(
                "{address} is this server itself, by its bind {bind}: name the resolver that is to be asked"
            );
            add(format!("{path}.address"), message);
        } else if address.ip().is_unspecified() || address.ip().is_multicast() || address.port() == 0 {
            let message = format!(
                "{address} can't be asked: write the address and port of a resolver, like 192.0.2.53:53"
            );
            add(format!("{path}.address"), message);
        }
        if let Some(first) = self.forward.upstreams[..i].iter().position(|other| other.address == *address) {
            add(
                format!("{path}.address"),
                format!("{address} is already upstreams[{first}]: remove one of them"),
            );
        }
        if tls_ca_file.is_some() && tls_server_name.is_none() {
            let message =
                "authorities are of use with TLS only: write tlsServerName too, the name in the certificate";
            add(format!("{path}.tlsCaFile"), message.into());
        }
    }
}

fn check_view(add: &mut impl FnMut(String, String), path: &str, view: &View) {
    let domains: Vec<String> = view.zones.iter().map(|zone| normalise(&zone.domain)).collect();
    for (i, zone) in view.zones.iter().enumerate() {
        let path = format!("{path}.zones[{i}]");
        if let Some(first) = domains[..i].iter().position(|domain| *domain == domains[i]) {
            let message = format!(
                "`{}` is already zones[{first}] of this view: write all its records there",
                zone.domain
            );
            add(format!("{path}.domain"), message);
        }
        zone::check(add, &path, zone, &domains, &domains[i]);
        let encloses = |other: &usize| {
            !view.zones[*other].open && *other != i && zone::is_in(&domains[i], &domains[*other])
        };
        if let Some(around) = (0..domains.len()).find(encloses).filter(|_| zone.open) {
            let message = format!(
                "it is within zones[{around}], whose names are asked nowhere else: write its records there, or leave out open"
            );
            add(format!("{path}.open"), message);
        }
    }
    for (i, network) in view.reverse.iter().enumerate() {
        let shortest = match network {
            IpNet::V4(_) => 8,
            IpNet::V6(_) => 16,
        };
        if network.prefix_len() < shortest {
            add(
                format!("{path}.reverse[{i}]"),
                format!("{network} is more than one site has: write networks of at least /{shortest}"),
            );
        }
    }
}

/// Whether the port of `bind` is had by `other` already.
fn is_taken(other: SocketAddr, bind: SocketAddr) -> bool {
    let one_is_any = other.ip().is_unspecified() || bind.ip().is_unspecified();
    let same = other.ip() == bind.ip() || (one_is_any && other.is_ipv4() == bind.is_ipv4());
    same && other.port() == bind.port() && bind.port() != 0
}

/// Whether every client of `view` is one of `other`.
fn covers(other: &View, view: &View) -> bool {
    let within = |network: &IpNet| other.sources.iter().any(|wider| wider.contains(network));
    other.sources.is_empty() || (!view.sources.is_empty() && view.sources.iter().all(within))
}

/// Whether what is sent there arrives at this bind.
fn reaches(bind: SocketAddr, target: SocketAddr) -> bool {
    let same_port = bind.port() == target.port() && bind.port() != 0;
    let any = bind.ip().is_unspecified() && bind.is_ipv4() == target.is_ipv4();
    let here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    same_port && (bind.ip() == target.ip() || (any && here(target.ip())))
}

#[cfg(test)]
mod tests;
