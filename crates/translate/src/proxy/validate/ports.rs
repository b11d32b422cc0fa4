//! What ports do with connections that no name matches.

use std::collections::HashMap;

use causeway_api::{Backend, Outcome, PortDefaults, PortProtocol, Protocol, ProxyServerSpec};

use super::{Entry, Findings};

impl Findings<'_> {
    pub(super) fn ports(&mut self, spec: &ProxyServerSpec) {
        let mut seen: HashMap<u16, usize> = HashMap::new();
        for (i, entry) in spec.ports.iter().enumerate() {
            let path = (self.path)(Entry::Port(i));
            if let Some(first) = seen.insert(entry.port, i) {
                let first = (self.path)(Entry::Port(first));
                self.add(
                    format!("{path}.port"),
                    format!("{} is already that of {first}: write one entry per port", entry.port),
                );
            }
            let here = || spec.backends.iter().filter(|b| b.port == entry.port);
            let datagrams_only = here().next().is_some() && here().all(|b| b.protocol == Protocol::Udp);
            if datagrams_only {
                let message = format!(
                    "port {} carries UDP only, which has no unmatched connections: drop the entry",
                    entry.port
                );
                self.add(path, message);
                continue;
            }
            if entry.protocol == Some(PortProtocol::Tcp) {
                self.unlooked(&path, entry, &spec.backends);
                continue;
            }
            for (field, outcome) in outcomes(entry) {
                self.outcome(format!("{path}.{field}"), entry.port, outcome, &spec.backends);
            }
        }
    }

    /// A port that looks at nothing has room for one TCPRoute, and nothing else to say.
    fn unlooked(&mut self, path: &str, entry: &PortDefaults, backends: &[Backend]) {
        let is_here = |backend: &&Backend| backend.port == entry.port && backend.protocol != Protocol::Udp;
        if let Some(backend) = backends.iter().find(is_here) {
            let message = format!(
                "TCP is for a port of a TCPRoute, and backend `{}` is on port {}: leave protocol out, or give the \
                 backend another port",
                backend.name, entry.port
            );
            self.add(format!("{path}.protocol"), message);
        }
        for (field, _) in outcomes(entry) {
            let message = "is for TLS: with protocol TCP every connection goes to the port's TCPRoute";
            self.add(format!("{path}.{field}"), message);
        }
    }

    fn outcome(&mut self, path: String, port: u16, outcome: &Outcome, backends: &[Backend]) {
        let name = match (&outcome.backend, outcome.refuse) {
            (Some(name), None) => name,
            (None, Some(_)) => return,
            _ => {
                let message =
                    "write either backend: NAME of a backend on this port, or refuse: Alert or Close";
                return self.add(path, message);
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
        self.add(format!("{path}.backend"), message);
    }
}

/// What an entry says of connections that no name matches, by field.
fn outcomes(entry: &PortDefaults) -> impl Iterator<Item = (&'static str, &Outcome)> {
    [("plaintext", &entry.plaintext), ("noSNI", &entry.no_sni), ("unknownSNI", &entry.unknown_sni)]
        .into_iter()
        .filter_map(|(field, outcome)| Some((field, outcome.as_ref()?)))
}
