//! What a plan changes, compared once: which listeners, and which routes of each.

use std::collections::HashSet;

use causeway_ir::http::{Http, HttpRoute, Site};
use causeway_ir::{Action, Change, Listener, Protocol, Then, TlsRoute, changes, route_changes};

/// A listener that differs between two plans.
pub(super) struct ListenerChange<'a> {
    pub(super) old: Option<&'a Listener>,
    pub(super) new: Option<&'a Listener>,
    /// Its routes by server name that differ.
    pub(super) tls: Vec<Change<'a, TlsRoute>>,
    /// Its routes of requests that differ, those of sites too.
    pub(super) http: Vec<Change<'a, HttpRoute>>,
    /// The names of its sites that differ.
    pub(super) sites: HashSet<&'a str>,
}

impl<'a> ListenerChange<'a> {
    pub(super) fn all(old: &'a [Listener], new: &'a [Listener]) -> Vec<Self> {
        let tls = |listener: Option<&'a Listener>| listener.map_or(&[][..], Listener::tls_routes);
        let http = |listener: Option<&'a Listener>| listener.and_then(Listener::http);
        let sites = |listener: Option<&'a Listener>| http(listener).map_or(&[][..], |http| &http.sites);
        let name = |change: Change<'a, Site>| change.new.or(change.old).map(|site| site.name.as_str());
        let of = |Change { old, new }| {
            // Which pages all routes have in common is compiled into each of them.
            let same_pages =
                http(old).map(|http| &http.error_pages) == http(new).map(|http| &http.error_pages);
            let known = if same_pages { sites(old) } else { &[] };
            Self {
                old,
                new,
                tls: changes(tls(old), tls(new)),
                http: route_changes(http(old), http(new)),
                sites: changes(known, sites(new)).into_iter().filter_map(name).collect(),
            }
        };
        changes(old, new).into_iter().map(of).collect()
    }

    /// The names of the routes that the new plan does not have.
    pub(super) fn gone(&self) -> impl Iterator<Item = String> {
        let tls = self.tls.iter().flat_map(|change| only_in(change.old, change.new));
        let http = self.http.iter().filter(|change| change.new.is_none());
        let http = http.filter_map(|change| change.old).map(|route| route.name.to_string());
        let (old, new) = (self.old.map(others), self.new.map(others).unwrap_or_default());
        tls.chain(http).chain(old.into_iter().flatten().filter(move |route| !new.contains(route)))
    }

    /// The names of the routes that the old plan did not have.
    pub(super) fn came(&self) -> impl Iterator<Item = String> {
        let tls = self.tls.iter().flat_map(|change| only_in(change.new, change.old));
        let http = self.http.iter().filter(|change| change.old.is_none());
        let http = http.filter_map(|change| change.new).map(|route| route.name.to_string());
        let (old, new) = (self.old.map(others).unwrap_or_default(), self.new.map(others));
        tls.chain(http).chain(new.into_iter().flatten().filter(move |route| !old.contains(route)))
    }
}

/// The names of a route, and of those inside of it, that the other plan's does not have.
fn only_in(of: Option<&TlsRoute>, other: Option<&TlsRoute>) -> impl Iterator<Item = String> {
    let own = of.filter(|_| other.is_none()).map(|route| route.name.to_string());
    let others: HashSet<String> =
        other.into_iter().flat_map(|route| inside(&route.name, &route.action)).collect();
    let within = of.into_iter().flat_map(|route| inside(&route.name, &route.action));
    own.into_iter().chain(within.filter(move |name| !others.contains(name)))
}

/// The routes inside of TLS, by the names that they have in logs and metrics.
fn inside<'a>(route: &'a str, action: &'a Action) -> impl Iterator<Item = String> + 'a {
    let then = match action {
        Action::Terminate(terminate) => Some(&terminate.then),
        _ => None,
    };
    let (http, plain) = match then {
        Some(Then::Http(http)) => (Some(http), None),
        Some(Then::Tcp(plain)) => (None, Some(plain)),
        None => (None, None),
    };
    let requests = http.into_iter().flat_map(Http::all_routes).map(|route| &route.name);
    requests.chain(plain.map(|plain| &plain.name)).map(move |inner| inner_name(route, inner))
}

/// The name in logs and metrics of a route inside of TLS.
pub(super) fn inner_name(route: &str, inner: &str) -> String {
    format!("{route}/{inner}")
}

/// The ways of a listener that have no list.
fn others(listener: &Listener) -> Vec<String> {
    match &listener.protocol {
        Protocol::Tcp(route) | Protocol::Udp(route) => vec![route.name.to_string()],
        Protocol::Tls(tls) => {
            let kept = |action: &Action| !matches!(action, Action::Refuse(_));
            let kept = tls.outcomes().filter(|(_, action)| kept(action));
            kept.flat_map(|(name, action)| inside(name, action).chain([name.to_owned()])).collect()
        }
        Protocol::Http(_) => Vec::new(),
    }
}
