//! The ports of a proxy, made of the backends behind them.

use causeway_api::{Outcome, PortDefaults, PortProtocol, ProxyServerSpec, Refusal};
use causeway_ir::{self as ir, Action, Name, Pattern};

use super::{Entry, Findings, HEALTH_PORT};
use crate::proxy::valid::{Backend, Listener};

/// A backend on its way into a listener.
struct Served<'a> {
    route: Name,
    cluster: &'a Name,
    server_names: &'a [Pattern],
}

impl Findings<'_> {
    /// One listener for each port and transport, by port; `None` only if something was found.
    pub(super) fn listeners(
        &mut self,
        proxy: &str,
        spec: &ProxyServerSpec,
        backends: &[(Backend, Vec<Pattern>)],
    ) -> Option<Vec<Listener>> {
        let mut served = Vec::with_capacity(backends.len());
        for (i, (backend, server_names)) in backends.iter().enumerate() {
            let path = format!("{}.name", (self.path)(Entry::Backend(i)));
            let route = self.name(path, &backend.name)?;
            let port = spec.backends.get(i)?.port;
            let backend = (backend.is_udp, Served { route, cluster: &backend.cluster.name, server_names });
            served.push((port, backend));
        }
        // The main port, and those that are listed, take routes though no backend is on them.
        let waiting = std::iter::once(spec.port).chain(spec.ports.iter().map(|entry| entry.port));
        let own = [spec.admin_port, spec.xds_port, HEALTH_PORT];
        let waiting = waiting.filter(|port| !own.contains(port)).map(|port| (port, false));
        let of_backends = served.iter().map(|(port, (is_udp, _))| (*port, *is_udp));
        let mut ports: Vec<(u16, bool)> = of_backends.chain(waiting).collect();
        ports.sort_unstable();
        ports.dedup();
        let one = |(port, is_udp): (u16, bool)| {
            let here: Vec<&Served<'_>> = served
                .iter()
                .filter(|(number, (udp, _))| *number == port && *udp == is_udp)
                .map(|(_, (_, backend))| backend)
                .collect();
            let kind = if is_udp { "-udp" } else { "" };
            let name = format!("{proxy}-listener-{port}{kind}");
            let entry = spec.ports.iter().find(|entry| entry.port == port).filter(|_| !is_udp);
            Some(Listener {
                port,
                pod_name: self.name("metadata.name", &format!("{name}-pod"))?,
                name: self.name("metadata.name", &name)?,
                accept_proxy_protocol: entry
                    .is_some_and(|entry| entry.accept_proxy_protocol)
                    .then(ir::AcceptProxyProtocol::default),
                protocol: match entry.and_then(|entry| entry.protocol) {
                    Some(PortProtocol::Tcp) => None,
                    _ => Some(protocol(is_udp, &here, entry)?),
                },
            })
        };
        ports.into_iter().map(one).collect()
    }
}

fn protocol(is_udp: bool, here: &[&Served<'_>], entry: Option<&PortDefaults>) -> Option<ir::Protocol> {
    if is_udp {
        return Some(ir::Protocol::Udp(unlooked(here.first()?)));
    }
    if let Some(only) = entry.and_then(|entry| leads_to_one(entry, here)) {
        return Some(ir::Protocol::Tcp(unlooked(only)));
    }
    let route = |backend: &&Served<'_>| ir::TlsRoute {
        name: backend.route.clone(),
        server_names: backend.server_names.to_vec(),
        connection_limit: None,
        action: Action::forward(backend.cluster.clone()),
    };
    let outcome = |wanted: Option<&Outcome>, usual: ir::Refusal| match wanted {
        Some(Outcome { backend: Some(name), .. }) => {
            let backend = here.iter().find(|backend| *backend.route == **name);
            backend.map(|backend| Action::forward(backend.cluster.clone()))
        }
        Some(Outcome { refuse: Some(Refusal::Alert), .. }) => Some(Action::Refuse(ir::Refusal::Alert)),
        Some(Outcome { refuse: Some(Refusal::Close), .. }) => Some(Action::Refuse(ir::Refusal::Close)),
        _ => Some(Action::Refuse(usual)),
    };
    Some(ir::Protocol::Tls(ir::Tls {
        routes: here.iter().map(route).collect(),
        no_server_name: outcome(entry.and_then(|e| e.no_sni.as_ref()), ir::Refusal::Alert)?,
        unknown_server_name: outcome(entry.and_then(|e| e.unknown_sni.as_ref()), ir::Refusal::Alert)?,
        plaintext: outcome(entry.and_then(|e| e.plaintext.as_ref()), ir::Refusal::Close)?,
    }))
}

/// The only backend of a port whose every connection ends there, so that nothing need be known of it. The server may then
/// speak first.
fn leads_to_one<'a, 'b>(entry: &PortDefaults, here: &[&'a Served<'b>]) -> Option<&'a Served<'b>> {
    let [only] = here else { return None };
    [&entry.plaintext, &entry.no_sni, &entry.unknown_sni]
        .into_iter()
        .all(|outcome| outcome.as_ref().and_then(|o| o.backend.as_deref()) == Some(&*only.route))
        .then_some(*only)
}

fn unlooked(backend: &Served<'_>) -> ir::ConnectionRoute {
    ir::ConnectionRoute {
        name: backend.route.clone(),
        connection_limit: None,
        action: Action::forward(backend.cluster.clone()),
    }
}
