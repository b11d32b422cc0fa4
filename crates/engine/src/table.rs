//! A listener compiled for lookups: one hash lookup for an exact name, one per label for wildcards, whatever the
//! number of names. Immutable; a new plan makes a new table and cores swap the pointer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::server_name::Pattern;
use causeway_ir::{Listener, Outcome, Refusal, Sniff};
use prometheus_client::metrics::gauge::Gauge;

use crate::close_reason::CloseReason;
use crate::cluster::Cluster;
use crate::metrics::{Closes, ListenerMetrics};

pub struct Table {
    pub name: String,
    pub address: SocketAddr,
    pub accept_proxy_protocol: bool,
    pub metrics: ListenerMetrics,
    pub mode: Mode,
}

/// How a listener finds the route of a connection.
pub enum Mode {
    /// All go the same way; nothing is read first, so servers may speak first.
    Plain(Arc<Route>),
    Tls(Names),
}

pub struct Names {
    exact: HashMap<String, Arc<Route>>,
    below: HashMap<String, Arc<Route>>,
    no_name: Verdict,
    unknown: Verdict,
    plaintext: Verdict,
}

#[derive(Clone)]
pub enum Verdict {
    Forward(Arc<Route>),
    Refuse(CloseReason, Refusal),
}

/// Where matched connections go.
pub struct Route {
    pub name: String,
    pub cluster: Arc<Cluster>,
    pub limit: Option<u32>,
    pub shared: Arc<RouteShared>,
}

/// What outlives a change of the route.
pub struct RouteShared {
    pub active: Gauge,
    pub closed: Closes,
}

/// The names of the routes that the outcomes of a listener become.
pub const NO_SERVER_NAME: &str = "(no server name)";
pub const UNKNOWN_SERVER_NAME: &str = "(unknown server name)";
pub const PLAINTEXT: &str = "(plaintext)";

impl Table {
    /// Compiles a listener of a valid plan; `route` makes a route from its name, cluster and limit.
    pub fn compile(
        listener: &Listener,
        address: SocketAddr,
        metrics: ListenerMetrics,
        mut route: impl FnMut(&str, &str, Option<u32>) -> Option<Arc<Route>>,
    ) -> Option<Self> {
        let mode = match listener.sniff {
            Sniff::None => {
                let only = listener.routes.first()?;
                Mode::Plain(route(&only.name, &only.cluster, only.connection_limit)?)
            }
            Sniff::Tls => {
                let mut names = Names {
                    exact: HashMap::new(),
                    below: HashMap::new(),
                    no_name: Verdict::Refuse(CloseReason::NoServerName, Refusal::Alert),
                    unknown: Verdict::Refuse(CloseReason::UnknownServerName, Refusal::Alert),
                    plaintext: Verdict::Refuse(CloseReason::Plaintext, Refusal::Close),
                };
                for (verdict, outcome, reason, name) in [
                    (&mut names.no_name, &listener.no_server_name, CloseReason::NoServerName, NO_SERVER_NAME),
                    (
                        &mut names.unknown,
                        &listener.unknown_server_name,
                        CloseReason::UnknownServerName,
                        UNKNOWN_SERVER_NAME,
                    ),
                    (&mut names.plaintext, &listener.plaintext, CloseReason::Plaintext, PLAINTEXT),
                ] {
                    *verdict = match outcome {
                        Outcome::Cluster(cluster) => Verdict::Forward(route(name, cluster, None)?),
                        Outcome::Refuse(refusal) => Verdict::Refuse(reason, *refusal),
                    };
                }
                for planned in &listener.routes {
                    let compiled = route(&planned.name, &planned.cluster, planned.connection_limit)?;
                    for name in &planned.server_names {
                        match Pattern::parse(name).ok()? {
                            Pattern::Exact(name) => names.exact.insert(name, Arc::clone(&compiled)),
                            Pattern::Below(domain) => names.below.insert(domain, Arc::clone(&compiled)),
                        };
                    }
                }
                Mode::Tls(names)
            }
        };
        Some(Self {
            name: listener.name.clone(),
            address,
            accept_proxy_protocol: listener.accept_proxy_protocol,
            metrics,
            mode,
        })
    }
}

impl Names {
    /// The verdict on a TLS client.
    pub fn find(&self, server_name: Option<&str>) -> Verdict {
        let Some(name) = server_name else { return self.no_name.clone() };
        if let Some(route) = self.exact.get(name) {
            return Verdict::Forward(Arc::clone(route));
        }
        let mut rest = name;
        while let Some((_, domain)) = rest.split_once('.') {
            if self.below.is_empty() {
                break;
            }
            if let Some(route) = self.below.get(domain) {
                return Verdict::Forward(Arc::clone(route));
            }
            rest = domain;
        }
        self.unknown.clone()
    }

    /// The verdict on a client that does not speak TLS.
    pub fn plaintext(&self) -> Verdict {
        self.plaintext.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn table(listener: &str) -> Table {
        let listener: Listener = serde_saphyr::from_str(listener).unwrap();
        let metrics = Metrics::default();
        let address = listener.address().unwrap();
        Table::compile(&listener, address, metrics.listener("l", "a"), |name, cluster, limit| {
            Some(Arc::new(Route {
                name: name.to_owned(),
                cluster: Arc::new(Cluster::new(&causeway_ir::Cluster::new(cluster, vec![]), &metrics)),
                limit,
                shared: Arc::new(RouteShared { active: Gauge::default(), closed: metrics.closes("l", name) }),
            }))
        })
        .unwrap()
    }

    fn found(table: &Table, name: Option<&str>) -> String {
        let Mode::Tls(names) = &table.mode else { panic!("sniffs") };
        match names.find(name) {
            Verdict::Forward(route) => route.name.clone(),
            Verdict::Refuse(reason, _) => reason.as_str().to_owned(),
        }
    }

    #[test]
    fn the_longest_match_wins() {
        let table = table(
            "{name: l, bind: '127.0.0.1:0', sniff: tls, noServerName: {cluster: d}, routes: [\
             {name: exact, serverNames: [a.x.test, alt.test], cluster: c},\
             {name: deep, serverNames: ['*.y.x.test'], cluster: c},\
             {name: wide, serverNames: ['*.x.test'], cluster: c}]}",
        );
        for (name, route) in [
            ("a.x.test", "exact"),
            ("alt.test", "exact"),
            ("b.x.test", "wide"),
            ("b.a.x.test", "wide"),
            ("q.y.x.test", "deep"),
            ("y.x.test", "wide"),
            ("x.test", "unknownServerName"),
            ("other.test", "unknownServerName"),
        ] {
            assert_eq!(found(&table, Some(name)), route, "{name}");
        }
        assert_eq!(found(&table, None), NO_SERVER_NAME);
    }
}
