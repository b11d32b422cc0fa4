//! A listener compiled for lookups: one hash lookup for an exact name, one per label for wildcards, whatever the
//! number of names. Immutable; a new plan makes a new table and cores swap the pointer. A new table shares with the
//! old one whatever did not change.

mod names;
mod route;

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use causeway_ir::http::{HttpRoute, Site};
use causeway_ir::route::{NO_SERVER_NAME, PLAINTEXT, UNKNOWN_SERVER_NAME};
use causeway_ir::{Action, Change, Limit, Pattern, Protocol, Refusal, Then, TlsRoute};

use crate::close_reason::CloseReason;
use crate::http::{self, Common, PageSet, Router, Routes, SessionKey};
use crate::listener::Listener;
use crate::tls::Clients;
use names::NameMap;
pub(crate) use route::{Destination, Inside, Rank, Route, RouteShared, Share, Terminated};

pub(crate) struct Table {
    pub(crate) listener: Arc<Listener>,
    pub(crate) mode: Mode,
}

/// The newest table of a core's sockets. It is read anew for each decision: what a connection had when it was accepted
/// may be history by the time it has said what it wants.
pub(crate) type CurrentTable = Rc<RefCell<Arc<Table>>>;

/// How a listener finds the route of a connection.
pub(crate) enum Mode {
    /// All go the same way; nothing is read first, so servers may speak first.
    Plain(Arc<Route>),
    Tls(Names),
    /// By request.
    Http(Box<Requests>),
}

/// The ways of requests in clear text.
pub(crate) struct Requests {
    router: Router<Arc<http::Route>>,
    /// The way of connections that do not begin with a request; without one they are refused as bad requests.
    pub(crate) otherwise: Option<Arc<Route>>,
}

#[derive(Clone)]
pub(crate) struct Names {
    exact: NameMap,
    below: NameMap,
    no_name: Verdict,
    unknown: Verdict,
    plaintext: Verdict,
    /// Requests are served in TLS here: who sends them without is told.
    speaks_https: bool,
}

#[derive(Clone)]
pub(crate) enum Verdict {
    Route(Arc<Route>),
    Refuse(CloseReason, Refusal),
}

impl Verdict {
    fn route(&self) -> Option<&Arc<Route>> {
        match self {
            Self::Route(route) => Some(route),
            Self::Refuse(..) => None,
        }
    }
}

/// What requests come in.
pub(crate) enum Within {
    Clear,
    /// TLS that ended here.
    Tls(Secured),
}

/// What was agreed on in a handshake.
pub(crate) struct Secured {
    /// The name that the client asked for, if it said one.
    server_name: Option<Arc<str>>,
    /// What was asked of the client, if anything was.
    asked: RefCell<Option<Arc<Clients>>>,
}

impl Secured {
    pub(crate) fn new(server_name: Option<Arc<str>>, asked: Option<Arc<Clients>>) -> Self {
        Self { server_name, asked: RefCell::new(asked) }
    }

    /// Whether the client has shown all that is asked for now.
    fn has_shown(&self, now: Option<&Arc<Clients>>) -> bool {
        let Some(now) = now else { return true };
        let mut asked = self.asked.borrow_mut();
        let Some(before) = asked.as_mut() else { return false };
        if Arc::ptr_eq(before, now) {
            return true;
        }
        let is_same = before.covers(now);
        if is_same {
            *before = Arc::clone(now);
        }
        is_same
    }
}

/// Why the requests of a connection are not served any more.
pub(crate) enum Unserved {
    /// The listener became another one.
    Gone,
    /// More is asked of clients than when this one came.
    Unproven,
}

/// Makes a route from its name, action and limit; `None` if the plan is not valid.
pub(crate) trait MakeRoute: FnMut(&Arc<str>, &Action, Option<Limit>) -> Option<Arc<Route>> {}

impl<T: FnMut(&Arc<str>, &Action, Option<Limit>) -> Option<Arc<Route>>> MakeRoute for T {}

/// What a new table begins with, and what has to change in it.
pub(crate) struct Basis<'a> {
    /// The table before, if it is of the same listener.
    pub(crate) table: Option<&'a Table>,
    pub(crate) changes: &'a [Change<'a, TlsRoute>],
    /// The names of the sites that differ.
    pub(crate) sites: &'a HashSet<&'a str>,
    /// What clients that stay with their endpoint bring back is signed with this.
    pub(crate) sessions: &'a Arc<SessionKey>,
    /// All pages of the plan.
    pub(crate) pages: &'a PageSet,
}

impl Basis<'_> {
    /// What a site compiled to before, if it is the same.
    fn kept(&self, site: &Site) -> Option<Arc<Routes<Arc<http::Route>>>> {
        let Mode::Http(requests) = &self.table?.mode else { return None };
        let is_same = !self.sites.contains(site.name.as_str());
        if is_same { requests.router.site(&site.name).cloned() } else { None }
    }
}

impl Table {
    /// Compiles a listener of a valid plan; `None` if the engine can't execute it.
    pub(crate) fn compile(
        plan: &causeway_ir::Listener,
        listener: Arc<Listener>,
        basis: &Basis<'_>,
        mut make: impl MakeRoute,
    ) -> Option<Self> {
        let mode = match &plan.protocol {
            Protocol::Tcp(route) | Protocol::Udp(route) => {
                Mode::Plain(make(&route.name.shared(), &route.action, route.connection_limit)?)
            }
            Protocol::Tls(tls) => Mode::Tls(Names::compile(tls, basis, make)?),
            Protocol::Http(http) => {
                let common = Common::of(http, basis.sessions, basis.pages);
                let otherwise = match &http.otherwise {
                    Some(route) => Some(make(&route.name.shared(), &route.action, route.connection_limit)?),
                    None => None,
                };
                let make = |route: &HttpRoute| {
                    let name = route.name.shared();
                    http::Route::compile(route, &common, |action| make(&name, action, None)).map(Arc::new)
                };
                let router = Router::compile(http, common.pages.clone(), |site| basis.kept(site), make)?;
                Mode::Http(Box::new(Requests { router, otherwise }))
            }
        };
        Some(Self { listener, mode })
    }

    /// The routes of the requests of a connection in clear text or, if its TLS ended here, by its server name.
    ///
    /// # Errors
    /// If there are none for it.
    pub(crate) fn requests(&self, within: &Within) -> Result<&Router<Arc<http::Route>>, Unserved> {
        match (&self.mode, within) {
            (Mode::Http(requests), Within::Clear) => Ok(&requests.router),
            (Mode::Tls(names), Within::Tls(secured)) => {
                let route = names.route(secured.server_name.as_deref()).ok_or(Unserved::Gone)?;
                let Destination::Terminate(terminated) = &route.destination else {
                    return Err(Unserved::Gone);
                };
                match &terminated.inside {
                    Inside::Requests(_) if !secured.has_shown(terminated.clients.as_ref()) => {
                        Err(Unserved::Unproven)
                    }
                    Inside::Requests(router) => Ok(router),
                    Inside::Bytes(_) => Err(Unserved::Gone),
                }
            }
            _ => Err(Unserved::Gone),
        }
    }

    /// Whether requests are served here, in TLS.
    pub(crate) fn speaks_https(&self) -> bool {
        self.names().is_some_and(|names| names.speaks_https)
    }

    /// Whether reaching an endpoint takes a handshake, for datagrams.
    pub(crate) fn takes_handshakes(&self) -> bool {
        let Mode::Plain(route) = &self.mode else { return false };
        route.destination.clusters().any(|cluster| cluster.state().settings.is_secured)
    }

    /// The names, if it has some.
    pub(crate) fn names(&self) -> Option<&Names> {
        match &self.mode {
            Mode::Plain(_) | Mode::Http(_) => None,
            Mode::Tls(names) => Some(names),
        }
    }
}

impl Names {
    fn compile(tls: &causeway_ir::Tls, basis: &Basis<'_>, mut make: impl MakeRoute) -> Option<Self> {
        let mut outcome = |name: &str, action: &Action, reason: CloseReason| match action {
            Action::Refuse(refusal) => Some(Verdict::Refuse(reason, *refusal)),
            action => Some(Verdict::Route(make(&name.into(), action, None)?)),
        };
        let no_name = outcome(NO_SERVER_NAME, &tls.no_server_name, CloseReason::NoServerName)?;
        let unknown = outcome(UNKNOWN_SERVER_NAME, &tls.unknown_server_name, CloseReason::UnknownServerName)?;
        let plaintext = outcome(PLAINTEXT, &tls.plaintext, CloseReason::Plaintext)?;
        let (mut exact, mut below) = match basis.table.and_then(Table::names) {
            Some(names) => (names.exact.clone(), names.below.clone()),
            None => (NameMap::with_capacity(basis.changes.len()), NameMap::with_capacity(0)),
        };
        // All that goes before all that comes: a name may move from one route to another.
        for name in basis.changes.iter().filter_map(|change| change.old).flat_map(|old| &old.server_names) {
            match name {
                Pattern::Exact(name) => exact.remove(name),
                Pattern::Below(domain) => below.remove(domain),
            }
        }
        for new in basis.changes.iter().filter_map(|change| change.new) {
            let route = make(&new.name.shared(), &new.action, new.connection_limit)?;
            for name in &new.server_names {
                match name {
                    Pattern::Exact(name) => exact.insert(name, &route),
                    Pattern::Below(domain) => below.insert(domain, &route),
                }
            }
        }
        let actions =
            tls.routes.iter().map(|route| &route.action).chain(tls.outcomes().map(|(_, action)| action));
        let speaks_https = actions.into_iter().any(
            |action| matches!(action, Action::Terminate(terminate) if matches!(terminate.then, Then::Http(_))),
        );
        Some(Self { exact, below, no_name, unknown, plaintext, speaks_https })
    }

    /// The route of a TLS client.
    fn route(&self, server_name: Option<&str>) -> Option<&Arc<Route>> {
        let Some(name) = server_name else { return self.no_name.route() };
        self.by_name(name).or_else(|| self.unknown.route())
    }

    /// The verdict on a TLS client.
    pub(crate) fn find(&self, server_name: Option<&str>) -> Verdict {
        let Some(name) = server_name else { return self.no_name.clone() };
        self.by_name(name).map_or_else(|| self.unknown.clone(), |route| Verdict::Route(Arc::clone(route)))
    }

    fn by_name(&self, name: &str) -> Option<&Arc<Route>> {
        if let Some(route) = self.exact.get(name) {
            return Some(route);
        }
        let mut rest = name;
        while let Some((_, domain)) = rest.split_once('.') {
            if self.below.is_empty() {
                break;
            }
            if let Some(route) = self.below.get(domain) {
                return Some(route);
            }
            rest = domain;
        }
        None
    }

    /// The verdict on a client that does not speak TLS.
    pub(crate) fn plaintext(&self) -> Verdict {
        self.plaintext.clone()
    }
}

#[cfg(test)]
mod tests {
    use causeway_ir::{Name, changes};

    use super::*;
    use crate::cluster::{Cluster, SettingsPool};
    use crate::metrics::Metrics;

    fn compile(
        listener: &str,
        old: Option<(&causeway_ir::Listener, &Table)>,
    ) -> (causeway_ir::Listener, Table) {
        let plan: causeway_ir::Listener = serde_saphyr::from_str(listener).unwrap();
        let metrics = Metrics::default();
        let name: Arc<str> = "l".into();
        let listener = Arc::new(Listener::new(&plan, plan.bind, metrics.listener(&name, "a")));
        let table = {
            let key = Arc::new(SessionKey::random());
            let changes = changes(old.map_or(&[][..], |(old, _)| old.tls_routes()), plan.tls_routes());
            let basis = Basis {
                table: old.map(|(_, table)| table),
                changes: &changes,
                sites: &HashSet::new(),
                sessions: &key,
                pages: &PageSet::default(),
            };
            Table::compile(&plan, listener, &basis, |route, _, limit| {
                let cluster = causeway_ir::Cluster::new(Name::parse("c").unwrap(), vec![]);
                Some(Arc::new(Route {
                    name: Arc::clone(route),
                    destination: Destination::Cluster(Arc::new(Cluster::new(
                        &cluster,
                        &mut SettingsPool::default(),
                    ))),
                    limit,
                    shared: Arc::new(RouteShared::new(metrics.closes(&name, route))),
                }))
            })
        };
        (plan, table.unwrap())
    }

    fn found(table: &Table, name: Option<&str>) -> String {
        match table.names().unwrap().find(name) {
            Verdict::Route(route) => route.name.to_string(),
            Verdict::Refuse(reason, _) => reason.as_str().to_owned(),
        }
    }

    #[test]
    fn the_longest_match_wins() {
        let (_, table) = compile(
            "{name: l, bind: '127.0.0.1:0', protocol: {tls: {noServerName: {forward: d}, routes: [\
             {name: exact, serverNames: [a.x.test, alt.test], action: {forward: c}},\
             {name: deep, serverNames: ['*.y.x.test'], action: {forward: c}},\
             {name: wide, serverNames: ['*.x.test'], action: {forward: c}}]}}}",
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
        let of = |routes: &str| {
            format!("{{name: l, bind: '127.0.0.1:0', protocol: {{tls: {{routes: [{routes}]}}}}}}")
        };
        let (listener, old) = compile(
            &of(
                "{name: a, serverNames: [x.test, y.test], action: {forward: c}}, {name: b, serverNames: ['*.z.test'], action: {forward: c}}",
            ),
            None,
        );
        let (_, new) = compile(
            &of(
                "{name: a, serverNames: [y.test], action: {forward: c}}, {name: d, serverNames: [x.test], action: {forward: c}}",
            ),
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
