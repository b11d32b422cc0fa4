//! The requests of a port. Each listener with a host is a site of its own, so that no route of another listener sees its
//! requests; the one without has the rest.

use std::collections::HashMap;
use std::fmt::Write as _;

use causeway_ir::Pattern;
use causeway_ir::http::{
    ErrorPage, Http, HttpAction, HttpRoute, PathMatch, RequestMatch, Response, Site, ValueMatch,
};

use super::Builder;
use crate::naming::name;

/// The answer to who asked for another listener's host in TLS.
const MISDIRECTED: u16 = 421;

impl Builder<'_, '_> {
    /// The requests of a port in clear text.
    pub(super) fn clear_http(&mut self, places: &[usize]) -> Http {
        let mut http = self.traffic.of_port(self.own, places);
        self.use_pages(&http.error_pages);
        for place in places {
            let routes = self.requests(*place, &http.error_pages);
            let listener = &self.own.listeners[*place];
            match &listener.host {
                None => http.routes = routes,
                Some(host) => {
                    http.sites.push(Site { name: name(&listener.label), hosts: vec![host.clone()], routes });
                }
            }
        }
        http
    }

    /// The requests inside of one listener's TLS: its own hosts, and the news for all others that they are elsewhere.
    pub(super) fn https(&mut self, place: usize, places: &[usize]) -> Http {
        let common = self.traffic.of_port(self.own, &[place]);
        self.use_pages(&common.error_pages);
        let routes = self.requests(place, &common.error_pages);
        let listeners = &self.own.listeners;
        let own = &listeners[place];
        let others =
            || places.iter().filter(move |other| **other != place).map(move |other| &listeners[*other].host);
        let mut http = Http { misdirected: others().flatten().cloned().collect(), ..common };
        match &own.host {
            None => http.routes = routes,
            Some(host) => {
                // What no listener names belongs to the one that names nothing.
                if others().any(Option::is_none) {
                    http.routes.push(misdirected());
                }
                http.sites.push(Site { name: name(&own.label), hosts: vec![host.clone()], routes });
            }
        }
        http
    }

    /// The rules of all routes of a listener; `pages` are those of its port.
    fn requests(&mut self, place: usize, pages: &[ErrorPage]) -> Vec<HttpRoute> {
        let own = self.own;
        let at_listener = self.traffic.at_listener(own, place);
        let mut made = Vec::new();
        let mut claimed: HashMap<(Option<Pattern>, String), usize> = HashMap::new();
        for attached in &own.attached[place] {
            let routes = self.routes;
            for rule in &routes[attached.route].rules.requests {
                let mut route = rule.clone();
                route.name = self.route_name(place, attached.route, Some(&rule.name));
                route.hosts.clone_from(&attached.hosts);
                let choice = self.traffic.at_rule(&at_listener, &routes[attached.route], &rule.name);
                self.traffic.apply(&choice, &mut route, pages);
                if let Some(first) = claim(&mut claimed, &route, attached.route) {
                    let message =
                        format!("{} is older and has what rule {} matches", routes[first].label(), rule.name);
                    self.lost.entry((place, attached.route)).or_insert(message);
                }
                self.use_of(&route);
                made.push(route);
            }
        }
        made
    }
}

fn misdirected() -> HttpRoute {
    let response = Response { status: MISDIRECTED, headers: Vec::new(), body: String::new() };
    HttpRoute {
        name: name("misdirected"),
        hosts: Vec::new(),
        matches: Vec::new(),
        filters: Vec::new(),
        timeouts: causeway_ir::http::Timeouts::default(),
        retry: None,
        policies: causeway_ir::http::Policies::default(),
        action: HttpAction::Respond(response),
    }
}

/// Claims all that a rule matches; another route that has the same already, if there is one.
fn claim(
    claimed: &mut HashMap<(Option<Pattern>, String), usize>,
    rule: &HttpRoute,
    route: usize,
) -> Option<usize> {
    let any = RequestMatch::default();
    let matches = if rule.matches.is_empty() { std::slice::from_ref(&any) } else { &rule.matches };
    let hosts: Vec<Option<&Pattern>> =
        if rule.hosts.is_empty() { vec![None] } else { rule.hosts.iter().map(Some).collect() };
    let mut lost = None;
    for request in matches {
        let key = key(request);
        for host in &hosts {
            let holder = *claimed.entry((host.cloned(), key.clone())).or_insert(route);
            if holder != route {
                lost = lost.or(Some(holder));
            }
        }
    }
    lost
}

/// The same text for matches that match the same requests, as far as their parts are the same.
fn key(request: &RequestMatch) -> String {
    let mut text = match &request.path {
        Some(PathMatch::Exact(path)) => format!("={path}"),
        Some(PathMatch::Prefix(path)) => format!("^{}", path.as_str().trim_end_matches('/')),
        Some(PathMatch::Regex(regex)) => format!("~{regex}"),
        Some(PathMatch::Call(method)) => format!("*{method}"),
        None => "^".to_owned(),
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(request.method.as_ref().map(|method| format!("m{method}")));
    parts.extend(request.headers.iter().map(|header| format!("h{}{}", header.name, value(&header.value))));
    parts.extend(request.query.iter().map(|query| format!("q{:?}{}", query.name, value(&query.value))));
    parts.sort();
    for part in parts {
        // Writing to a String does not fail.
        let _ = write!(text, "\n{part}");
    }
    text
}

fn value(value: &ValueMatch) -> String {
    match value {
        ValueMatch::Exact(text) => format!("={text:?}"),
        ValueMatch::Regex(regex) => format!("~{:?}", regex.as_str()),
    }
}
