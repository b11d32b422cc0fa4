//! The Services behind a proxy: what each entry says by itself, and where two are in each other's way.

use std::collections::HashMap;
use std::net::IpAddr;

use causeway_api::conditions::Reason;
use causeway_api::{
    Backend, Balancing, HealthCheck, HealthCheckKind, Protocol, ProxyProtocol, ProxyServerSpec,
};
use causeway_ir::{self as ir, Limit, Pattern, Period};

use super::{Findings, HEALTH_PORT};
use crate::proxy::translate::cluster_name;
use crate::proxy::valid;
use crate::services::ServiceRef;

/// Without a byte for this long connections and UDP sessions end, if the spec does not say.
const IDLE_TCP: Period = Period::from_secs(3600);
const IDLE_UDP: Period = Period::from_secs(60);

impl Findings<'_> {
    /// Every backend with its server names; `None` only if something was found.
    pub(super) fn backends(
        &mut self,
        proxy: &str,
        spec: &ProxyServerSpec,
    ) -> Option<Vec<(valid::Backend, Vec<Pattern>)>> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut backends = Vec::with_capacity(spec.backends.len());
        for (i, backend) in spec.backends.iter().enumerate() {
            if let Some(first) = seen.insert(&backend.name, i) {
                let first = (self.path)(super::Entry::Backend(first));
                self.add(
                    self.of_backend(i, "name"),
                    format!("`{}` is already the name of {first}: names are unique", backend.name),
                );
            }
            backends.push(self.backend(proxy, i, backend));
        }
        let names = self.server_names(&spec.backends);
        self.datagrams(&spec.backends);
        self.own_ports(spec);
        backends.into_iter().zip(names).map(|(backend, names)| Some((backend?, names))).collect()
    }

    /// What an entry says by itself.
    fn backend(&mut self, proxy: &str, index: usize, backend: &Backend) -> Option<valid::Backend> {
        let at = |field: &str| format!("{}.{field}", (self.path)(super::Entry::Backend(index)));
        let [port, target_port, timeout, idle, limit, slow_start, proxy_protocol, health_check] = [
            "port",
            "targetPort",
            "timeoutSeconds",
            "idleTimeoutSeconds",
            "connectionLimit",
            "slowStartSeconds",
            "sendProxyProtocol",
            "healthCheck",
        ]
        .map(at);
        for (path, number) in [(port, backend.port), (target_port, backend.target_port)] {
            if number == 0 {
                self.add(path, "must be from 1 to 65535");
            }
        }
        let is_udp = backend.protocol == Protocol::Udp;
        let usual_idle = if is_udp { IDLE_UDP } else { IDLE_TCP };
        let name = self.name("metadata.name", &cluster_name(proxy, &backend.name));
        let cluster = |name| ir::Cluster::new(name, Vec::new());
        let connect_timeout = self.seconds(timeout, backend.timeout_seconds);
        let idle_timeout = backend.idle_timeout_seconds.map_or(usual_idle, |count| self.seconds(idle, count));
        let connection_limit = backend.connection_limit.and_then(|count| self.limit(limit, count));
        let slow_start = backend.slow_start_seconds.map(|count| self.seconds(slow_start, count));
        if is_udp {
            let only = "is for connections only: leave it out with protocol UDP";
            if backend.send_proxy_protocol.is_some() {
                self.add(proxy_protocol, only);
            }
            if backend.health_check.is_some() {
                self.add(health_check.clone(), only);
            }
        }
        let health_check =
            backend.health_check.as_ref().map(|check| self.health_check(&health_check, check, backend));
        Some(valid::Backend {
            name: backend.name.clone(),
            service: ServiceRef {
                namespace: backend.target_namespace.clone(),
                name: backend.target_service.clone(),
            },
            target_port: backend.target_port,
            is_udp,
            cluster: ir::Cluster {
                policy: match backend.balancing {
                    Balancing::RoundRobin => ir::Policy::RoundRobin,
                    Balancing::LeastConnections => ir::Policy::LeastConnections,
                    Balancing::SourceHash => ir::Policy::SourceHash,
                },
                connect_timeout,
                idle_timeout,
                health_check,
                slow_start,
                connection_limit,
                send_proxy_protocol: backend.send_proxy_protocol.map(|version| match version {
                    ProxyProtocol::V1 => ir::ProxyVersion::V1,
                    ProxyProtocol::V2 => ir::ProxyVersion::V2,
                }),
                ..cluster(name?)
            },
        })
    }

    fn health_check(&mut self, path: &str, check: &HealthCheck, backend: &Backend) -> ir::HealthCheck {
        ir::HealthCheck {
            kind: match check.kind {
                HealthCheckKind::Tcp => ir::HealthCheckKind::Tcp,
                HealthCheckKind::Tls => ir::HealthCheckKind::Tls,
            },
            server_name: name_to_ask_for(backend).filter(|_| check.kind == HealthCheckKind::Tls),
            interval: self.seconds(format!("{path}.intervalSeconds"), check.interval_seconds),
            timeout: self.seconds(format!("{path}.timeoutSeconds"), check.timeout_seconds),
            unhealthy_after: const { Limit::new(3).expect("not 0") },
            healthy_after: const { Limit::new(2).expect("not 0") },
        }
    }

    /// The names of each backend. Found are those that can't be asked for, and those that two entries claim on one port.
    fn server_names(&mut self, backends: &[Backend]) -> Vec<Vec<Pattern>> {
        let mut seen: HashMap<(u16, Pattern), (String, &str)> = HashMap::new();
        let mut all = Vec::with_capacity(backends.len());
        for (i, backend) in backends.iter().enumerate() {
            let mut patterns = Vec::new();
            for (field, name) in hostnames(backend) {
                let path = self.of_backend(i, &field);
                let pattern = match Pattern::parse(name) {
                    Ok(Pattern::Exact(name)) if name.parse::<IpAddr>().is_ok() => {
                        self.add(path, format!("`{name}` is an address, which no TLS client asks for by name: write a name, and ports[].noSNI for clients that dial the address"));
                        continue;
                    }
                    Ok(pattern) => pattern,
                    Err(message) => {
                        self.add(path, message);
                        continue;
                    }
                };
                patterns.push(pattern.clone());
                if backend.protocol == Protocol::Udp {
                    continue;
                }
                match seen.get(&(backend.port, pattern.clone())) {
                    Some((first, other)) => {
                        let message = format!(
                            "`{pattern}` on port {} is claimed by backend `{}` and already by backend `{other}` at \
                             {first}: drop one, or use another port",
                            backend.port, backend.name
                        );
                        self.add_because(Reason::DuplicateHostname, path, message);
                    }
                    None => {
                        seen.insert((backend.port, pattern), (path, &backend.name));
                    }
                }
            }
            all.push(patterns);
        }
        all
    }

    /// Datagrams carry no name, so a port has room for one backend of them.
    fn datagrams(&mut self, backends: &[Backend]) {
        let mut seen: HashMap<u16, (usize, &str)> = HashMap::new();
        for (i, backend) in backends.iter().enumerate().filter(|(_, b)| b.protocol == Protocol::Udp) {
            match seen.get(&backend.port) {
                Some((first, other)) => {
                    let first = (self.path)(super::Entry::Backend(*first));
                    self.add(
                        self.of_backend(i, "port"),
                        format!(
                            "UDP port {} is already that of backend `{other}` ({first}): datagrams carry no name to \
                             tell `{}` from it, so give it another port",
                            backend.port, backend.name
                        ),
                    );
                }
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
                        self.of_backend(i, "port"),
                        format!("{port} of backend `{}` is the port of {whose}: {cure}", backend.name),
                    );
                }
            }
        }
        for (i, entry) in spec.ports.iter().enumerate() {
            let has_backend = spec.backends.iter().any(|b| b.port == entry.port);
            for (port, whose, cure) in
                own.into_iter().filter(|(port, ..)| *port == entry.port && !has_backend)
            {
                let path = format!("{}.port", (self.path)(super::Entry::Port(i)));
                self.add(
                    path,
                    format!("{port} is the port of {whose}: {}", cure.replace("backend port", "port")),
                );
            }
        }
        if spec.admin_port == spec.xds_port {
            self.add("spec.adminPort", format!("{} is spec.xdsPort too: choose another", spec.admin_port));
        }
        for (path, port) in [("spec.adminPort", spec.admin_port), ("spec.xdsPort", spec.xds_port)] {
            if port == HEALTH_PORT {
                self.add(path, format!("{port} is the port of the proxy's health checks: choose another"));
            }
        }
    }
}

/// A backend's names with their fields.
/// A name that the server must know, since clients come with it.
fn name_to_ask_for(backend: &Backend) -> Option<ir::Name> {
    hostnames(backend).find_map(|(_, name)| match Pattern::parse(name) {
        Ok(Pattern::Exact(name)) => ir::Name::parse(&name).ok(),
        _ => None,
    })
}

fn hostnames(backend: &Backend) -> impl Iterator<Item = (String, &str)> {
    let first = std::iter::once(("hostname".to_owned(), backend.hostname.as_str()));
    let further = backend.alternate_hostnames.iter().enumerate();
    first.chain(further.map(|(n, name)| (format!("alternateHostnames[{n}]"), name.as_str())))
}
