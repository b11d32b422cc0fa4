//! A listener compiled for lookups: one hash lookup for an exact name, one per label for wildcards, whatever the
//! number of names. Immutable; a new plan makes a new table and cores swap the pointer. A new table shares with the
//! old one whatever did not change.

mod names;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use causeway_ir::server_name::Pattern;
use causeway_ir::{Listener, Outcome, Refusal, Sniff};
use prometheus_client::metrics::gauge::Gauge;

use crate::close_reason::CloseReason;
use crate::cluster::Cluster;
use crate::metrics::{Closes, ListenerMetrics};
use names::NameMap;

pub struct Table {
    pub listener: Arc<Front>,
    pub mode: Mode,
}

/// What a connection keeps of its listener: not the table, which would outlive its plan.
pub struct Front {
    pub name: Arc<str>,
    pub address: SocketAddr,
    pub accept_proxy_protocol: bool,
    pub metrics: ListenerMetrics,
}

/// How a listener finds the route of a connection.
pub enum Mode {
    /// All go the same way; nothing is read first, so servers may speak first.
    Plain(Arc<Route>),
    Tls(Names),
}

#[derive(Clone)]
pub struct Names {
    exact: NameMap,
    below: NameMap,
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
    pub name: Box<str>,
    pub cluster: Arc<Cluster>,
    pub limit: Option<u32>,
    pub shared: Arc<RouteShared>,
}

/// What outlives a change of the route.
pub struct RouteShared {
    pub active: Gauge,
    pub closed: Closes,
    over: AtomicBool,
}

impl RouteShared {
    pub fn new(closed: Closes) -> Self {
        Self { active: Gauge::default(), closed, over: AtomicBool::new(false) }
    }

    /// Marks the route as removed, with its time to drain over.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
        self.closed.forget();
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}

/// The names of the routes that the outcomes of a listener become.
pub const NO_SERVER_NAME: &str = "(no server name)";
pub const UNKNOWN_SERVER_NAME: &str = "(unknown server name)";
pub const PLAINTEXT: &str = "(plaintext)";

/// The outcomes of a listener with the names of the routes they become.
pub fn outcomes(listener: &Listener) -> [(&'static str, &Outcome, CloseReason); 3] {
    [
        (NO_SERVER_NAME, &listener.no_server_name, CloseReason::NoServerName),
        (UNKNOWN_SERVER_NAME, &listener.unknown_server_name, CloseReason::UnknownServerName),
        (PLAINTEXT, &listener.plaintext, CloseReason::Plaintext),
    ]
}

/// The names of a table that a new one begins with, and the routes that it has to lose and to gain.
pub struct Change<'a> {
    pub names: Option<&'a Names>,
    pub gone: &'a [causeway_ir::Route],
    pub new: &'a [causeway_ir::Route],
}

impl Table {
    /// Compiles a listener of a valid plan; `route` makes a route from its name, cluster and limit.
    pub fn compile(
        listener: &Listener,
        front: Arc<Front>,
        change: &Change<'_>,
        mut route: impl FnMut(&str, &str, Option<u32>) -> Option<Arc<Route>>,
    ) -> Option<Self> {
        if listener.sniff == Sniff::None {
            let only = listener.routes.first()?;
            let mode = Mode::Plain(route(&only.name, &only.cluster, only.connection_limit)?);
            return Some(Self { listener: front, mode });
        }
        let mut verdicts = outcomes(listener).into_iter().map(|(name, outcome, reason)| match outcome {
            Outcome::Cluster(cluster) => Some(Verdict::Forward(route(name, cluster, None)?)),
            Outcome::Refuse(refusal) => Some(Verdict::Refuse(reason, *refusal)),
        });
        let [no_name, unknown, plaintext] = [verdicts.next()??, verdicts.next()??, verdicts.next()??];
        drop(verdicts);
        let (mut exact, mut below) = match change.names {
            Some(names) => (names.exact.clone(), names.below.clone()),
            None => (NameMap::with_capacity(change.new.len()), NameMap::with_capacity(0)),
        };
        for planned in change.gone {
            for name in &planned.server_names {
                match Pattern::parse(name).ok()? {
                    Pattern::Exact(name) => exact.remove(&name),
                    Pattern::Below(domain) => below.remove(&domain),
                }
            }
        }
        for planned in change.new {
            let compiled = route(&planned.name, &planned.cluster, planned.connection_limit)?;
            for name in &planned.server_names {
                match Pattern::parse(name).ok()? {
                    Pattern::Exact(name) => exact.insert(name, &compiled),
                    Pattern::Below(domain) => below.insert(domain, &compiled),
                }
            }
        }
        let names = Names { exact, below, no_name, unknown, plaintext };
        Some(Self { listener: front, mode: Mode::Tls(names) })
    }

    /// The names, if it has some.
    pub fn names(&self) -> Option<&Names> {
        match &self.mode {
            Mode::Plain(_) => None,
            Mode::Tls(names) => Some(names),
        }
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

    fn compile(listener: &str, old: Option<(&Listener, &Table)>) -> (Listener, Table) {
        let listener: Listener = serde_saphyr::from_str(listener).unwrap();
        let metrics = Metrics::default();
        let name: Arc<str> = "l".into();
        let front = Front {
            name: Arc::clone(&name),
            address: listener.address().unwrap(),
            accept_proxy_protocol: false,
            metrics: metrics.listener(&name, "a"),
        };
        let change = Change {
            names: old.and_then(|(_, table)| table.names()),
            gone: old.map_or(&[][..], |(old, _)| &old.routes),
            new: &listener.routes,
        };
        let table = Table::compile(&listener, Arc::new(front), &change, |route, cluster, limit| {
            Some(Arc::new(Route {
                name: route.into(),
                cluster: Arc::new(Cluster::new(&causeway_ir::Cluster::new(cluster, vec![]))),
                limit,
                shared: Arc::new(RouteShared::new(metrics.closes(&name, route))),
            }))
        });
        let table = table.unwrap();
        (listener, table)
    }

    fn found(table: &Table, name: Option<&str>) -> String {
        match table.names().unwrap().find(name) {
            Verdict::Forward(route) => route.name.to_string(),
            Verdict::Refuse(reason, _) => reason.as_str().to_owned(),
        }
    }

    #[test]
    fn the_longest_match_wins() {
        let (_, table) = compile(
            "{name: l, bind: '127.0.0.1:0', sniff: tls, noServerName: {cluster: d}, routes: [\
             {name: exact, serverNames: [a.x.test, alt.test], cluster: c},\
             {name: deep, serverNames: ['*.y.x.test'], cluster: c},\
             {name: wide, serverNames: ['*.x.test'], cluster: c}]}",
            None,
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

    #[test]
    fn a_name_that_moves_to_another_route_is_found_there_and_the_old_table_stays() {
        let of = |routes: &str| format!("{{name: l, bind: '127.0.0.1:0', sniff: tls, routes: [{routes}]}}");
        let (listener, old) = compile(
            &of(
                "{name: a, serverNames: [x.test, y.test], cluster: c}, {name: b, serverNames: ['*.z.test'], cluster: c}",
            ),
            None,
        );
        let (_, new) = compile(
            &of("{name: a, serverNames: [y.test], cluster: c}, {name: d, serverNames: [x.test], cluster: c}"),
            Some((&listener, &old)),
        );
        for (name, before, after) in
            [("x.test", "a", "d"), ("y.test", "a", "a"), ("q.z.test", "b", "unknownServerName")]
        {
            assert_eq!(found(&old, Some(name)), before, "{name}");
            assert_eq!(found(&new, Some(name)), after, "{name}");
        }
    }
}
