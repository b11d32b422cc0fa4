//! What is wrong with a plan, each with the path of the field and what to write instead.

mod small_change;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use crate::plan::{Cluster, Listener, Outcome, Plan, Protocol, Sniff};
use crate::server_name::{self, Pattern};

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, like `listeners[0].routes[2].serverNames[1]`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { path: path.into(), message: message.into() });
    }

    /// Reports a second use of a name and where the first one is.
    /// Paths are written only when there is something to report: plans are large and mostly right.
    fn unique<'a>(
        &mut self,
        seen: &mut HashMap<&'a str, usize>,
        name: &'a str,
        index: usize,
        path: impl Fn(usize) -> String,
    ) {
        if name.is_empty() {
            self.add(path(index), "a name is needed");
        } else if let Some(first) = seen.get(name) {
            let first = path(*first);
            self.add(path(index), format!("the name `{name}` is already that of {first}: names are unique"));
        } else {
            seen.insert(name, index);
        }
    }
}

impl Plan {
    /// The same as [`Self::validate`], quicker if little differs from a plan that is known to be fine.
    pub fn validate_after(&self, fine: &Plan) -> Vec<Problem> {
        if small_change::is_fine(fine, self) { Vec::new() } else { self.validate() }
    }

    /// Everything that makes this plan impossible to run; empty when it is fine.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Findings::default();
        let mut clusters = HashMap::with_capacity(self.clusters.len());
        for (i, cluster) in self.clusters.iter().enumerate() {
            found.unique(&mut clusters, &cluster.name, i, |i| format!("clusters[{i}].name"));
            check_cluster(&mut found, &|| format!("clusters[{i}]"), cluster);
        }
        let mut listeners = HashMap::new();
        for (i, listener) in self.listeners.iter().enumerate() {
            found.unique(&mut listeners, &listener.name, i, |i| format!("listeners[{i}].name"));
            check_listener(&mut found, &format!("listeners[{i}]"), listener, &clusters);
        }
        check_port_clashes(&mut found, &self.listeners);
        self.check_datagrams(&mut found);
        if self.limits.handshake_timeout.is_zero() {
            found.add("limits.handshakeTimeout", "must be longer than 0s");
        }
        for (field, limit) in [
            ("connections", self.limits.connections),
            ("newConnectionsPerSecond", self.limits.new_connections_per_second),
        ] {
            if limit == Some(0) {
                found.add(format!("limits.{field}"), "0 lets nothing in: leave the field out for no limit");
            }
        }
        found.0
    }

    /// A datagram has no room for the PROXY header.
    fn check_datagrams(&self, found: &mut Findings) {
        let senders = self.clusters.iter().filter(|cluster| cluster.send_proxy_protocol.is_some());
        let senders: HashSet<&str> = senders.map(|cluster| cluster.name.as_str()).collect();
        let sends = |name: &str| senders.contains(name);
        for (i, listener) in self.listeners.iter().enumerate().filter(|(_, l)| l.protocol == Protocol::Udp) {
            for (r, route) in listener.routes.iter().enumerate().filter(|(_, route)| sends(&route.cluster)) {
                found.add(
                    format!("listeners[{i}].routes[{r}].cluster"),
                    format!(
                        "`{}` has sendProxyProtocol, which is for TCP only: give UDP its own cluster",
                        route.cluster
                    ),
                );
            }
        }
    }

    /// What runs, but perhaps not as its author thinks: wildcards within wildcards that lead elsewhere.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut found = Findings::default();
        for (i, listener) in self.listeners.iter().enumerate() {
            let mut below: HashMap<String, (String, &str)> = HashMap::new();
            for (path, domain, cluster) in wildcards(i, listener) {
                below.insert(domain, (path, cluster));
            }
            let mut domains: Vec<_> = below.keys().collect();
            domains.sort();
            for domain in domains {
                let (path, cluster) = &below[domain];
                let mut parent = domain.as_str();
                while let Some((_, rest)) = parent.split_once('.') {
                    parent = rest;
                    let Some((other, other_cluster)) = below.get(parent) else { continue };
                    if other_cluster != cluster {
                        found.add(
                            path,
                            format!(
                                "`*.{domain}` lies within `*.{parent}` of {other}: the longer one wins, so its \
                                 names go to cluster `{cluster}`, not `{other_cluster}`"
                            ),
                        );
                    }
                    break;
                }
            }
        }
        found.0
    }
}

/// The domains of the wildcards of a listener with their paths and clusters.
fn wildcards(index: usize, listener: &Listener) -> impl Iterator<Item = (String, String, &str)> {
    listener.routes.iter().enumerate().flat_map(move |(r, route)| {
        let names = route.server_names.iter().enumerate().filter(|(_, name)| name.starts_with('*'));
        names.filter_map(move |(n, name)| {
            let Ok(Pattern::Below(domain)) = Pattern::parse(name) else { return None };
            let path = format!("listeners[{index}].routes[{r}].serverNames[{n}]");
            Some((path, domain, route.cluster.as_str()))
        })
    })
}

fn check_listener(found: &mut Findings, path: &str, listener: &Listener, clusters: &HashMap<&str, usize>) {
    let known = |found: &mut Findings, path: &dyn Fn() -> String, name: &str| {
        if !clusters.contains_key(name) {
            found
                .add(path(), format!("there is no cluster `{name}`: add it to clusters or correct the name"));
        }
    };
    if listener.address().is_none() {
        found.add(
            format!("{path}.bind"),
            format!("`{}` is not an address and port: write 0.0.0.0:443 or [::]:443", listener.bind),
        );
    }
    if listener.protocol == Protocol::Udp {
        if listener.sniff != Sniff::None {
            found.add(format!("{path}.sniff"), "datagrams are not sniffed: leave it out with protocol UDP");
        }
        if listener.accept_proxy_protocol {
            found.add(format!("{path}.acceptProxyProtocol"), "is for TCP only");
        }
    }
    let count = listener.routes.len();
    let mut route_names = HashMap::with_capacity(count);
    let mut server_names: HashMap<Cow<'_, str>, (usize, usize)> = HashMap::with_capacity(count);
    let name_path = |(r, n): (usize, usize)| format!("{path}.routes[{r}].serverNames[{n}]");
    for (r, route) in listener.routes.iter().enumerate() {
        found.unique(&mut route_names, &route.name, r, |r| format!("{path}.routes[{r}].name"));
        known(found, &|| format!("{path}.routes[{r}].cluster"), &route.cluster);
        if route.connection_limit == Some(0) {
            found.add(
                format!("{path}.routes[{r}].connectionLimit"),
                "0 lets nothing in: leave the field out for no limit",
            );
        }
        if listener.sniff == Sniff::Tls && route.server_names.is_empty() {
            found.add(
                format!("{path}.routes[{r}].serverNames"),
                "a route of a listener with `sniff: tls` needs a name: for the rest use unknownServerName, \
                 noServerName and plaintext",
            );
        }
        if listener.sniff == Sniff::None && !route.server_names.is_empty() {
            found.add(
                format!("{path}.routes[{r}].serverNames"),
                "names are only seen with `sniff: tls`: add it to the listener",
            );
        }
        for (n, name) in route.server_names.iter().enumerate() {
            match server_name::valid(name) {
                Err(message) => found.add(name_path((r, n)), message),
                Ok(name) => match server_names.get(&name) {
                    Some(first) => {
                        let first = name_path(*first);
                        found.add(name_path((r, n)), format!("`{name}` is already at {first}"));
                    }
                    None => {
                        server_names.insert(name, (r, n));
                    }
                },
            }
        }
    }
    match (listener.sniff, listener.routes.len()) {
        (Sniff::None, 1) => {}
        (Sniff::None, 0) => {
            found.add(format!("{path}.routes"), "a route is needed: name the cluster that serves this port");
        }
        (Sniff::None, count) => found.add(
            format!("{path}.routes"),
            format!("{count} routes can't be told apart without `sniff: tls`: keep one"),
        ),
        (Sniff::Tls, _) => {
            for (field, outcome) in [
                ("noServerName", &listener.no_server_name),
                ("unknownServerName", &listener.unknown_server_name),
                ("plaintext", &listener.plaintext),
            ] {
                if let Outcome::Cluster(name) = outcome {
                    known(found, &|| format!("{path}.{field}.cluster"), name);
                }
            }
        }
    }
}

fn check_cluster(found: &mut Findings, path: &dyn Fn() -> String, cluster: &Cluster) {
    // Most clusters have few endpoints, and nothing is taken for those of one.
    let mut seen: HashMap<SocketAddr, usize> = HashMap::new();
    let several = cluster.endpoints.len() > 1;
    for (e, endpoint) in cluster.endpoints.iter().enumerate() {
        let at = |e: usize| format!("{}.endpoints[{e}]", path());
        match endpoint.address.parse::<SocketAddr>() {
            Err(_) => found.add(
                format!("{}.address", at(e)),
                format!(
                    "`{}` is not an address and port: write 10.0.0.1:443 or [2001:db8::1]:443",
                    endpoint.address
                ),
            ),
            Ok(address) if address.port() == 0 => {
                found.add(format!("{}.address", at(e)), "port 0 can't be connected to");
            }
            Ok(address) if several => {
                if let Some(first) = seen.insert(address, e) {
                    found.add(format!("{}.address", at(e)), format!("{address} is already {}", at(first)));
                }
            }
            Ok(_) => {}
        }
        if endpoint.weight == 0 {
            found.add(
                format!("{}.weight", at(e)),
                "must be at least 1: to rest an endpoint set `ready: false`",
            );
        }
    }
    for (field, duration) in
        [("connectTimeout", cluster.connect_timeout), ("idleTimeout", cluster.idle_timeout)]
    {
        if duration.is_zero() {
            found.add(format!("{}.{field}", path()), "must be longer than 0s");
        }
    }
    if cluster.connection_limit == Some(0) {
        found.add(
            format!("{}.connectionLimit", path()),
            "0 lets nothing in: leave the field out for no limit",
        );
    }
    if let Some(check) = &cluster.health_check {
        for (field, zero) in [
            ("interval", check.interval.is_zero()),
            ("timeout", check.timeout.is_zero()),
            ("unhealthyAfter", check.unhealthy_after == 0),
            ("healthyAfter", check.healthy_after == 0),
        ] {
            if zero {
                found.add(format!("{}.healthCheck.{field}", path()), "must be more than 0");
            }
        }
    }
}

fn check_port_clashes(found: &mut Findings, listeners: &[Listener]) {
    let mut by_port: HashMap<(Protocol, u16, bool), Vec<(usize, SocketAddr)>> = HashMap::new();
    for (i, listener) in listeners.iter().enumerate() {
        let Some(address) = listener.address().filter(|a| a.port() != 0) else { continue };
        let same = by_port.entry((listener.protocol, address.port(), address.is_ipv4())).or_default();
        let clash = same.iter().find(|(_, other)| {
            other.ip() == address.ip() || other.ip().is_unspecified() || address.ip().is_unspecified()
        });
        if let Some((first, other)) = clash {
            found.add(
                format!("listeners[{i}].bind"),
                format!(
                    "{address} clashes with {other} of listeners[{first}]: put their routes in one listener"
                ),
            );
        }
        same.push((i, address));
    }
}

#[cfg(test)]
mod tests;
