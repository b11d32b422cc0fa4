//! What a plan changes, compared once: which listeners, and which routes of each.

use causeway_ir::{Action, Change, Listener, Protocol, TlsRoute, changes};

/// A listener that differs between two plans.
pub(super) struct ListenerChange<'a> {
    pub(super) old: Option<&'a Listener>,
    pub(super) new: Option<&'a Listener>,
    /// Its routes by server name that differ.
    pub(super) tls: Vec<Change<'a, TlsRoute>>,
}

impl<'a> ListenerChange<'a> {
    pub(super) fn all(old: &'a [Listener], new: &'a [Listener]) -> Vec<Self> {
        let routes = |listener: Option<&'a Listener>| listener.map_or(&[][..], Listener::tls_routes);
        let of = |Change { old, new }| Self { old, new, tls: changes(routes(old), routes(new)) };
        changes(old, new).into_iter().map(of).collect()
    }

    /// The names of the routes that the new plan does not have.
    pub(super) fn gone(&self) -> impl Iterator<Item = &'a str> {
        let tls = self.tls.iter().filter(|change| change.new.is_none());
        let tls = tls.filter_map(|change| change.old).map(|route| route.name.as_str());
        let (old, new) = (self.old.map(others), self.new.map(others).unwrap_or_default());
        tls.chain(old.into_iter().flatten().filter(move |route| !new.contains(route)))
    }

    /// The names of the routes that the old plan did not have.
    pub(super) fn came(&self) -> impl Iterator<Item = &'a str> {
        let tls = self.tls.iter().filter(|change| change.old.is_none());
        let tls = tls.filter_map(|change| change.new).map(|route| route.name.as_str());
        let (old, new) = (self.old.map(others).unwrap_or_default(), self.new.map(others));
        tls.chain(new.into_iter().flatten().filter(move |route| !old.contains(route)))
    }
}

/// The ways of a listener that are not routes by server name.
fn others(listener: &Listener) -> Vec<&str> {
    match &listener.protocol {
        Protocol::Tcp(route) | Protocol::Udp(route) => vec![&route.name],
        Protocol::Tls(tls) => {
            let forwards = |action: &Action| matches!(action, Action::Forward(_));
            tls.outcomes().filter(|(_, action)| forwards(action)).map(|(name, _)| name).collect()
        }
        Protocol::Http(_) => Vec::new(),
    }
}
