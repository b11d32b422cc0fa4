//! What is wrong with a `ProxyServer`'s spec, each problem with the path of its field and, where two entries are in each
//! other's way, with both. The API server refuses some of it already; the rest needs more than a schema can say.

use std::collections::HashMap;
use std::net::IpAddr;

use causeway_api::{Backend, Outcome, PortDefaults, Protocol, ProxyServerSpec};
use causeway_ir::Problem;
use causeway_ir::server_name::Pattern;

/// Port of `/healthz` and `/ready` on the pod's address.
pub const HEALTH_PORT: u16 = 8080;

/// Everything that makes this spec impossible to run; empty when it is fine.
pub fn validate(spec: &ProxyServerSpec) -> Vec<Problem> {
    let mut found = Findings::default();
    found.addresses(spec);
    if spec.backends.is_empty() {
        found.add("backends", "is empty: name at least one Service to forward to");
    }
    found.entries(spec);
    found.names(&spec.backends);
    found.datagrams(&spec.backends);
    found.own_ports(spec);
    found.ports(spec);
    found.0
}

/// The address of a `serverIP`, without the prefix length that it may carry.
pub fn bare_address(text: &str) -> Option<IpAddr> {
    text.split_once('/').map_or(text, |(address, _)| address).parse().ok()
}

#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn add(&mut self, field: impl AsRef<str>, message: impl Into<String>) {
        self.0.push(Problem { path: format!("spec.{}", field.as_ref()), message: message.into() });
    }

    fn addresses(&mut self, spec: &ProxyServerSpec) {
        let network = &spec.network_config;
        let mut seen: HashMap<IpAddr, String> = HashMap::new();
        let first = std::iter::once(("networkConfig.serverIP".to_owned(), &network.server_ip));
        let further = network
            .additional_server_ips
            .iter()
            .enumerate()
            .map(|(i, text)| (format!("networkConfig.additionalServerIPs[{i}]"), text));
        for (field, text) in first.chain(further) {
            let Some(address) = address_with_prefix(text) else {
                self.add(
                    field,
                    format!("`{text}` is not an address: write one like 192.168.100.5 or 192.168.100.5/24"),
                );
                continue;
            };
            if address.is_unspecified() || address.is_multicast() {
                self.add(
                    &field,
                    format!("{address} can't be a proxy's own address: write one of its network"),
                );
            }
            if let Some(other) = seen.get(&address) {
                self.add(&field, format!("{address} is already {other}: each replica needs its own"));
            } else {
                seen.insert(address, format!("spec.{field}"));
            }
        }
        let addresses = 1 + network.additional_server_ips.len();
        let replicas = usize::try_from(spec.replicas).unwrap_or_default();
        if replicas == 0 {
            self.add("replicas", "must be at least 1");
        } else if replicas > addresses {
            self.add(
                "replicas",
                format!(
                    "{replicas} replicas need {replicas} addresses and there are {addresses}: list {} more in \
                     networkConfig.additionalServerIPs, or lower replicas",
                    replicas - addresses
                ),
            );
        }
    }

    /// What each backend says by itself.
    fn entries(&mut self, spec: &ProxyServerSpec) {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (i, backend) in spec.backends.iter().enumerate() {
            let at = |field: &str| format!("backends[{i}].{field}");
            if let Some(first) = seen.insert(&backend.name, i) {
                self.add(
                    at("name"),
                    format!(
                        "`{}` is already the name of spec.backends[{first}]: names are unique",
                        backend.name
                    ),
                );
            }
            for (field, port) in [("port", backend.port), ("targetPort", backend.target_port)] {
                if port == 0 {
                    self.add(at(field), "must be from 1 to 65535");
                }
            }
            let mut positive = vec![
                ("timeoutSeconds", Some(backend.timeout_seconds)),
                ("idleTimeoutSeconds", backend.idle_timeout_seconds),
                ("connectionLimit", backend.connection_limit),
                ("slowStartSeconds", backend.slow_start_seconds),
            ];
            if let Some(check) = &backend.health_check {
                positive.push(("healthCheck.intervalSeconds", Some(check.interval_seconds)));
                positive.push(("healthCheck.timeoutSeconds", Some(check.timeout_seconds)));
            }
            for (field, value) in positive {
                if value.is_some_and(|value| value < 1) {
                    self.add(at(field), "must be at least 1");
                }
            }
            if backend.protocol == Protocol::Udp {
                for (field, used) in [
                    ("sendProxyProtocol", backend.send_proxy_protocol.is_some()),
                    ("healthCheck", backend.health_check.is_some()),
                ] {
                    if used {
                        self.add(at(field), "is for connections only: leave it out with protocol UDP");
                    }
                }
            }
        }
        if spec.connection_limit.is_some_and(|limit| limit < 1) {
            self.add("connectionLimit", "must be at least 1: leave it out for no limit");
        }
        if spec.drain_seconds < 0 {
            self.add("drainSeconds", "must be at least 0");
        }
    }

    /// Names that can't be asked for, and names that two entries claim on one port.
    fn names(&mut self, backends: &[Backend]) {
        let mut seen: HashMap<(u16, Pattern), (String, &str)> = HashMap::new();
        for (i, backend) in backends.iter().enumerate() {
            for (field, name) in hostnames(i, backend) {
                let pattern = match Pattern::parse(name) {
                    Ok(Pattern::Exact(name)) if name.parse::<IpAddr>().is_ok() => {
                        self.add(field, format!("`{name}` is an address, which no TLS client asks for by name: write a name, and ports[].noSNI for clients that dial the address"));
                        continue;
                    }
                    Ok(pattern) => pattern,
                    Err(message) => {
                        self.add(field, message);
                        continue;
                    }
                };
                if backend.protocol == Protocol::Udp {
                    continue;
                }
                let text = pattern.text();
                match seen.get(&(backend.port, pattern.clone())) {
                    Some((first, other)) => self.add(
                        field,
                        format!(
                            "`{text}` on port {} is claimed by backend `{}` and already by backend `{other}` at {first}: \
                             drop one, or use another port",
                            backend.port, backend.name
                        ),
                    ),
                    None => {
                        seen.insert((backend.port, pattern), (format!("spec.{field}"), &backend.name));
                    }
                }
            }
        }
    }

    /// Datagrams carry no name, so a port has room for one backend of them.
    fn datagrams(&mut self, backends: &[Backend]) {
        let mut seen: HashMap<u16, (usize, &str)> = HashMap::new();
        for (i, backend) in backends.iter().enumerate().filter(|(_, b)| b.protocol == Protocol::Udp) {
            match seen.get(&backend.port) {
                Some((first, other)) => self.add(
                    format!("backends[{i}].port"),
                    format!(
                        "UDP port {} is already that of backend `{other}` (spec.backends[{first}]): datagrams carry no \
                         name to tell `{}` from it, so give it another port",
                        backend.port, backend.name
                    ),
                ),
                None => {
                    seen.insert(backend.port, (i, &backend.name));
                }
            }
        }
    }

    /// Ports that the proxy needs for itself.
    fn own_ports(&mut self, spec: &ProxyServerSpec) {
        let own = [
            (spec.admin_port, "spec.adminPort", "choose another adminPort or backend port"),
            (spec.xds_port, "spec.xdsPort", "choose another xdsPort or backend port"),
            (HEALTH_PORT, "the proxy's health checks", "choose another backend port"),
        ];
        let tcp = spec.backends.iter().enumerate().filter(|(_, b)| b.protocol != Protocol::Udp);
        for (i, backend) in tcp {
            for (port, whose, cure) in own {
                if backend.port == port {
                    self.add(
                        format!("backends[{i}].port"),
                        format!("{port} of backend `{}` is the port of {whose}: {cure}", backend.name),
                    );
                }
            }
        }
        if spec.admin_port == spec.xds_port {
            self.add("adminPort", format!("{} is spec.xdsPort too: choose another", spec.admin_port));
        }
        for (field, port) in [("adminPort", spec.admin_port), ("xdsPort", spec.xds_port)] {
            if port == HEALTH_PORT {
                self.add(field, format!("{port} is the port of the proxy's health checks: choose another"));
            }
        }
    }

    fn ports(&mut self, spec: &ProxyServerSpec) {
        let mut seen: HashMap<u16, usize> = HashMap::new();
        for (i, entry) in spec.ports.iter().enumerate() {
            if let Some(first) = seen.insert(entry.port, i) {
                self.add(
                    format!("ports[{i}].port"),
                    format!(
                        "{} is already that of spec.ports[{first}]: write one entry per port",
                        entry.port
                    ),
                );
            }
            let here = || spec.backends.iter().filter(|b| b.port == entry.port);
            let datagrams_only = here().next().is_some() && here().all(|b| b.protocol == Protocol::Udp);
            if datagrams_only {
                self.add(
                    format!("ports[{i}]"),
                    format!(
                        "port {} carries UDP only, which has no unmatched connections: drop the entry",
                        entry.port
                    ),
                );
                continue;
            }
            for (field, outcome) in outcomes(entry) {
                self.outcome(&format!("ports[{i}].{field}"), entry.port, outcome, &spec.backends);
            }
        }
    }

    fn outcome(&mut self, field: &str, port: u16, outcome: &Outcome, backends: &[Backend]) {
        let name = match (&outcome.backend, outcome.refuse) {
            (Some(name), None) => name,
            (None, Some(_)) => return,
            _ => {
                return self.add(
                    field,
                    "write either backend: NAME of a backend on this port, or refuse: Alert or Close",
                );
            }
        };
        let there = || backends.iter().filter(|b| b.name == *name);
        if there().any(|b| b.port == port && b.protocol != Protocol::Udp) {
            return;
        }
        let message = match there().next() {
            Some(backend) if backend.port == port => {
                format!("backend `{name}` carries UDP: name one that carries connections")
            }
            Some(backend) => format!(
                "backend `{name}` is on port {}, not on {port}: name one of port {port}",
                backend.port
            ),
            None => {
                let names: Vec<&str> =
                    backends.iter().filter(|b| b.port == port).map(|b| b.name.as_str()).collect();
                let there = if names.is_empty() { "no backend at all".to_owned() } else { names.join(", ") };
                format!("there is no backend `{name}`; on port {port} there is {there}")
            }
        };
        self.add(format!("{field}.backend"), message);
    }
}

/// What an entry says of connections that no name matches, by field.
pub(super) fn outcomes(entry: &PortDefaults) -> impl Iterator<Item = (&'static str, &Outcome)> {
    [("plaintext", &entry.plaintext), ("noSNI", &entry.no_sni), ("unknownSNI", &entry.unknown_sni)]
        .into_iter()
        .filter_map(|(field, outcome)| Some((field, outcome.as_ref()?)))
}

/// A backend's names with their fields.
fn hostnames(index: usize, backend: &Backend) -> impl Iterator<Item = (String, &str)> {
    let first = std::iter::once((format!("backends[{index}].hostname"), backend.hostname.as_str()));
    let further = backend.alternate_hostnames.iter().enumerate();
    first.chain(
        further.map(move |(n, name)| (format!("backends[{index}].alternateHostnames[{n}]"), name.as_str())),
    )
}

fn address_with_prefix(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| Some(text.parse::<ipnet::IpNet>().ok()?.addr()))
}

#[cfg(test)]
mod tests;
