//! Which of several has a name: a backend of the spec before any route, and of routes the older, then the first by
//! namespace and name, as in the Gateway API. The same for all who ask: the operator that says so, the proxies that do so.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use causeway_api::{RouteKind, SuppliedRoute};
use causeway_ir::{self as ir, Pattern};

use crate::proxy::valid::{Listener, Valid};

/// What routes have of a proxy's ports.
#[derive(Debug, Default)]
pub struct Claims<'a> {
    by_port: HashMap<u16, Vec<Claim<'a>>>,
    /// By the route's place in the list, what it does not get, and who has it.
    pub lost: HashMap<usize, Vec<String>>,
}

/// What a route has of one port.
#[derive(Debug)]
pub struct Claim<'a> {
    /// Its place in the list.
    pub index: usize,
    /// The route.
    pub route: &'a SuppliedRoute,
    /// Its names; none for a TCPRoute.
    pub server_names: Vec<Pattern>,
}

impl<'a> Claims<'a> {
    /// What each of the routes gets.
    pub fn of(proxy: &Valid, routes: &'a [SuppliedRoute]) -> Self {
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_key(|index| {
            routes.get(*index).map(|route| (&route.created, &route.namespace, &route.name, route.kind))
        });
        let mut claims = Self::default();
        for listener in &proxy.listeners {
            claims.take(listener, routes, &order);
        }
        claims
    }

    /// What routes have of this port, the oldest first.
    pub fn at(&self, port: u16) -> &[Claim<'a>] {
        self.by_port.get(&port).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every route that has something.
    pub fn holders(&self) -> HashSet<usize> {
        self.by_port.values().flatten().map(|claim| claim.index).collect()
    }

    fn take(&mut self, listener: &Listener, routes: &'a [SuppliedRoute], order: &[usize]) {
        let mut holders: HashMap<Pattern, String> = HashMap::new();
        if let Some(ir::Protocol::Tls(tls)) = &listener.protocol {
            for route in &tls.routes {
                let backend = format!("backend {}", route.name);
                holders.extend(route.server_names.iter().map(|name| (name.clone(), backend.clone())));
            }
        }
        let mut tcp: Option<&SuppliedRoute> = None;
        for &index in order {
            let Some(route) = routes.get(index) else { continue };
            if !route.ports.contains(&listener.port) || !listener.takes(route.kind) {
                continue;
            }
            let mut server_names = Vec::new();
            if route.kind == RouteKind::Tcp {
                if let Some(holder) = tcp {
                    let holder = format!("port {} is that of {}", listener.port, full_name(holder));
                    self.lost.entry(index).or_default().push(holder);
                    continue;
                }
                tcp = Some(route);
            } else {
                for pattern in route.hostnames.iter().filter_map(|name| server_name(name).ok()) {
                    if let Some(holder) = holders.get(&pattern) {
                        let lost = format!("{pattern} on port {} is that of {holder}", listener.port);
                        self.lost.entry(index).or_default().push(lost);
                    } else {
                        holders.insert(pattern.clone(), full_name(route));
                        server_names.push(pattern);
                    }
                }
                if server_names.is_empty() {
                    continue;
                }
            }
            self.by_port.entry(listener.port).or_default().push(Claim { index, route, server_names });
        }
    }
}

fn full_name(route: &SuppliedRoute) -> String {
    format!("{} {}/{}", route.kind.as_str(), route.namespace, route.name)
}

/// A name that a TLS client can ask for.
pub(super) fn server_name(text: &str) -> Result<Pattern, String> {
    match Pattern::parse(text)? {
        Pattern::Exact(name) if name.parse::<IpAddr>().is_ok() => {
            Err(format!("`{name}` is an address, which no TLS client asks for by name: write a name"))
        }
        pattern => Ok(pattern),
    }
}
