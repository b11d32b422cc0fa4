//! Which of several routes that match a request gets it. The rules are those of Gateway API, written down here and
//! nowhere else:
//!
//! 1. the host: an exact name before a wildcard, a longer wildcard before a shorter one, any host last;
//! 2. the path: an exact one, then a regular expression, then the longest prefix, then a call's method
//!    whatever its service, then none;
//! 3. a method before none;
//! 4. the larger number of headers;
//! 5. the larger number of query parameters;
//! 6. the earlier in the plan. Who makes plans puts older resources first, then those first by name.
//!
//! Gateway API leaves the rank of regular expressions open: here they stand between exact paths and prefixes, so that one
//! can be laid over a prefix.
//!
//! Before all of that the best of the hosts that sites have says in which list is looked: the routes of a site are ranked
//! among themselves, by their own hosts as they are written.

use std::cmp::Reverse;

use super::HttpRoute;
use super::matches::{PathMatch, RequestMatch};
use crate::Pattern;

/// One way to match a route; smaller ones are tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    host: (u8, Reverse<usize>),
    path: (u8, Reverse<usize>),
    method: Reverse<bool>,
    headers: Reverse<usize>,
    query: Reverse<usize>,
    place: (usize, usize),
}

/// One way to match a route: a host, if it names any, and what the request looks like, if it says.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// `None` for every host.
    pub host: Option<&'a Pattern>,
    /// `None` for every request.
    pub request: Option<&'a RequestMatch>,
    /// The route that gets it.
    pub route: &'a HttpRoute,
}

/// Every way to match a route of a list, in the order in which they are tried.
pub fn ordered(routes: &[HttpRoute]) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    for (r, route) in routes.iter().enumerate() {
        let hosts: Vec<_> =
            if route.hosts.is_empty() { vec![None] } else { route.hosts.iter().map(Some).collect() };
        let requests: Vec<_> =
            if route.matches.is_empty() { vec![None] } else { route.matches.iter().map(Some).collect() };
        for host in hosts {
            for (m, request) in requests.iter().copied().enumerate() {
                found.push((rank(host, request, (r, m)), Candidate { host, request, route }));
            }
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

fn rank(host: Option<&Pattern>, request: Option<&RequestMatch>, place: (usize, usize)) -> Rank {
    let host = match host {
        Some(Pattern::Exact(name)) => (0, Reverse(name.len())),
        Some(Pattern::Below(domain)) => (1, Reverse(domain.len())),
        None => (2, Reverse(0)),
    };
    let path = match request.and_then(|request| request.path.as_ref()) {
        Some(PathMatch::Exact(path)) => (0, Reverse(path.as_str().len())),
        Some(PathMatch::Regex(regex)) => (1, Reverse(regex.as_str().len())),
        Some(PathMatch::Prefix(path)) => match path.as_str().trim_end_matches('/').len() {
            0 => (4, Reverse(0)),
            length => (2, Reverse(length)),
        },
        Some(PathMatch::Call(method)) => (3, Reverse(method.as_str().len())),
        None => (4, Reverse(0)),
    };
    Rank {
        host,
        path,
        method: Reverse(request.is_some_and(|request| request.method.is_some())),
        headers: Reverse(request.map_or(0, |request| request.headers.len())),
        query: Reverse(request.map_or(0, |request| request.query.len())),
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Http;

    fn order(routes: &str) -> Vec<String> {
        let http: Http = serde_saphyr::from_str(routes).unwrap();
        ordered(&http.routes).iter().map(|candidate| candidate.route.name.to_string()).collect()
    }

    #[test]
    fn hosts_come_before_everything_else() {
        let order = order(
            "routes:\n\
             - {name: any, matches: [{path: {exact: /a}}], action: {forward: c}}\n\
             - {name: wide, hosts: ['*.test'], action: {forward: c}}\n\
             - {name: narrow, hosts: ['*.a.test'], action: {forward: c}}\n\
             - {name: exact, hosts: [x.a.test], action: {forward: c}}",
        );
        assert_eq!(order, ["exact", "narrow", "wide", "any"]);
    }

    #[test]
    fn the_rules_in_their_order() {
        let order = order(
            "routes:\n\
             - {name: none, action: {forward: c}}\n\
             - {name: call, matches: [{path: {call: /b}}], action: {forward: c}}\n\
             - {name: short, matches: [{path: {prefix: /a}}], action: {forward: c}}\n\
             - {name: long, matches: [{path: {prefix: /a/b}}], action: {forward: c}}\n\
             - {name: regex, matches: [{path: {regex: '/a.*'}}], action: {forward: c}}\n\
             - {name: exact, matches: [{path: {exact: /a}}], action: {forward: c}}\n\
             - {name: query, matches: [{query: [{name: q, value: {exact: '1'}}]}], action: {forward: c}}\n\
             - {name: header, matches: [{headers: [{name: h, value: {exact: '1'}}]}], action: {forward: c}}\n\
             - {name: method, matches: [{method: GET}], action: {forward: c}}\n\
             - {name: later, matches: [{path: {prefix: /a}}], action: {forward: c}}",
        );
        assert_eq!(
            order,
            ["exact", "regex", "long", "short", "later", "call", "method", "header", "query", "none"]
        );
    }
}
