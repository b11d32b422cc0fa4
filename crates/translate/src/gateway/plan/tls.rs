//! The connections of a port that looks at server names: TLS that ends here and TLS that goes on as it is, side by side. A
//! name belongs to the most specific listener that has it, also where that one has no route for it.

use std::collections::BTreeMap;

use causeway_ir::tls::ClientCertificates;
use causeway_ir::{Action, ConnectionRoute, Name, Pattern, Refusal, Terminate, Then, Tls, TlsRoute};

use super::Builder;
use crate::gateway::hosts::{self, Owners};
use crate::gateway::listeners::Protocol;
use crate::gateway::own::Attached;
use crate::gateway::secrets::reference;
use crate::naming::name;

impl Builder<'_, '_> {
    /// What is done with TLS on a port; none if no listener can do anything.
    pub(super) fn tls(&mut self, places: &[usize]) -> Option<Tls> {
        let own = self.own;
        if !places.iter().any(|place| own.listeners[*place].serves()) {
            return None;
        }
        let owners: Owners =
            places.iter().map(|place| (own.listeners[*place].host.clone(), *place)).collect();
        let strangers = Action::Refuse(
            places
                .iter()
                .map(|place| self.refusal(*place))
                .find(|by| *by == Refusal::Close)
                .unwrap_or(Refusal::Alert),
        );
        let mut tls =
            Tls { no_server_name: strangers.clone(), unknown_server_name: strangers, ..Tls::default() };
        for place in places {
            let listener = &own.listeners[*place];
            if !listener.serves() {
                self.refuse_rest(&mut tls, *place);
                continue;
            }
            match listener.protocol {
                Some(Protocol::Https) => {
                    let then = Then::Http(self.https(*place, places));
                    let action = self.terminate(*place, then);
                    add(&mut tls, name(&listener.label), vec![listener.host.clone()], action);
                }
                Some(Protocol::TlsTerminate | Protocol::TlsPassthrough) => {
                    self.by_name(&mut tls, *place, &owners);
                    self.refuse_rest(&mut tls, *place);
                }
                _ => {}
            }
        }
        Some(tls)
    }

    /// The names of a listener's routes, each with the route that has it: the one whose own hostname is the more specific,
    /// then the older one.
    fn by_name(&mut self, tls: &mut Tls, place: usize, owners: &Owners) {
        let own = self.own;
        let listener = &own.listeners[place];
        let mut best: BTreeMap<Option<Pattern>, (Option<Pattern>, usize)> = BTreeMap::new();
        for (order, attached) in own.attached[place].iter().enumerate() {
            for host in hosts_of(attached) {
                let Ok(name) = hosts::intersect(listener.host.as_ref(), host.as_ref()) else { continue };
                if owners.owner(name.as_ref()) != Some(place) {
                    continue;
                }
                match best.get_mut(&name) {
                    None => {
                        best.insert(name, (host, order));
                    }
                    Some((held, by)) if hosts::rank(host.as_ref()) < hosts::rank(held.as_ref()) => {
                        let loser = std::mem::replace(by, order);
                        *held = host;
                        self.tell_loser(place, loser, order);
                    }
                    Some((_, by)) => {
                        let by = *by;
                        self.tell_loser(place, order, by);
                    }
                }
            }
        }
        let mut names: BTreeMap<usize, Vec<Option<Pattern>>> = BTreeMap::new();
        for (name, (_, order)) in best {
            names.entry(order).or_default().push(name);
        }
        for (order, names) in names {
            let action = self.connection_action(place, &own.attached[place][order]);
            let route = self.route_name(place, own.attached[place][order].route, None);
            add(tls, route, names, action);
        }
    }

    fn tell_loser(&mut self, place: usize, loser: usize, winner: usize) {
        let attached = &self.own.attached[place];
        let (loser, winner) = (attached[loser].route, attached[winner].route);
        if loser != winner {
            let message =
                format!("{} has a server name that this route wants too", self.routes[winner].label());
            self.lost.entry((place, loser)).or_insert(message);
        }
    }

    fn connection_action(&mut self, place: usize, attached: &Attached) -> Action {
        let routes = self.routes;
        let targets = &routes[attached.route].rules.connections;
        if self.own.listeners[place].protocol == Some(Protocol::TlsPassthrough) {
            return self.forward(&targets.sealed, Refusal::Close);
        }
        let action = self.forward(&targets.open, Refusal::Close);
        let inside = ConnectionRoute {
            name: self.route_name(place, attached.route, None),
            connection_limit: None,
            action,
        };
        self.terminate(place, Then::Tcp(inside))
    }

    /// Ends the TLS of a listener.
    fn terminate(&mut self, place: usize, then: Then) -> Action {
        let listener = &self.own.listeners[place];
        for (name, found) in &listener.certificates {
            self.certificates.insert(name.clone(), found.clone());
        }
        let client_certificates = listener.clients.as_ref().map(|clients| {
            self.authorities.insert(clients.name.clone(), clients.bundle.clone());
            ClientCertificates { authorities: reference(&clients.name), mode: clients.mode }
        });
        let certificates = listener.certificates.iter().map(|(name, _)| reference(name)).collect();
        Action::Terminate(Box::new(Terminate { certificates, client_certificates, then }))
    }

    /// What a listener has no route for is refused, and not left to a listener that is less specific.
    fn refuse_rest(&self, tls: &mut Tls, place: usize) {
        let listener = &self.own.listeners[place];
        let Some(host) = &listener.host else { return };
        if tls.routes.iter().all(|route| !route.server_names.contains(host)) {
            let refuse = Action::Refuse(self.refusal(place));
            add(tls, name(&format!("refused@{}", listener.label)), vec![Some(host.clone())], refuse);
        }
    }

    /// How a listener refuses names that it has no route for. Where TLS may be meant for a backend, an alert would be an
    /// answer in its place; so the specification wants the connection closed.
    fn refusal(&self, place: usize) -> Refusal {
        match self.own.listeners[place].protocol {
            Some(Protocol::TlsTerminate | Protocol::TlsPassthrough) => Refusal::Close,
            _ => Refusal::Alert,
        }
    }
}

fn hosts_of(attached: &Attached) -> Vec<Option<Pattern>> {
    if attached.hosts.is_empty() { vec![None] } else { attached.hosts.iter().cloned().map(Some).collect() }
}

/// Adds a route for names; for every name it is what happens to those that nobody else has, and to who names none.
fn add(tls: &mut Tls, name: Name, names: Vec<Option<Pattern>>, action: Action) {
    if names.contains(&None) {
        tls.no_server_name = action.clone();
        tls.unknown_server_name = action.clone();
    }
    let server_names: Vec<Pattern> = names.into_iter().flatten().collect();
    if !server_names.is_empty() {
        tls.routes.push(TlsRoute { name, server_names, connection_limit: None, action });
    }
}
