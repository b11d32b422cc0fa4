use std::fmt::Write as _;
use std::time::Instant;

use proptest::prelude::*;

use super::*;

/// A request in words.
#[derive(Debug, Clone)]
struct Question {
    method: &'static str,
    host: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
}

impl Question {
    fn ask<R>(&self, answer: impl FnOnce(&Asked<'_>) -> R) -> R {
        let mut head = String::new();
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        head.push_str("\r\n");
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
        answer(&Asked {
            method: self.method,
            host: &self.host,
            path: &self.path,
            query: Some(self.query.as_bytes()),
            fields,
        })
    }
}

fn get(host: &str, path: &str) -> Question {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Question {
        method: "GET",
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: Vec::new(),
    }
}

fn compiled(http: &Http) -> Router<String> {
    Router::compile(http, |route| Some(route.name.to_string())).unwrap()
}

fn found(router: &Router<String>, question: &Question) -> Option<(String, usize)> {
    question.ask(|asked| router.find(asked).map(|found| (found.to.clone(), found.prefix)))
}

/// The same by trying every candidate in its order.
fn by_trying(http: &Http, question: &Question) -> Option<String> {
    let value =
        |name: &str| question.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let parameter = |name: &str| {
        question
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    };
    let fits = |request: &RequestMatch| {
        request.path.as_ref().is_none_or(|path| path.is_match(&question.path))
            && request.method.as_ref().is_none_or(|method| method.as_str() == question.method)
            && request.headers.iter().all(|h| value(h.name.as_str()).is_some_and(|v| h.value.is_match(v)))
            && request.query.iter().all(|q| parameter(&q.name).is_some_and(|v| q.value.is_match(v)))
    };
    let host = Pattern::Exact(question.host.clone());
    let candidates = precedence::ordered(http);
    let first = candidates.iter().find(|candidate| {
        candidate.host.is_none_or(|pattern| pattern.covers(&host)) && candidate.request.is_none_or(fits)
    });
    first.map(|candidate| candidate.route.name.to_string())
}

#[test]
fn the_most_specific_route_wins_and_the_next_takes_what_it_leaves() {
    let http: Http = serde_saphyr::from_str(
        "routes:\n\
         - {name: any, action: {forward: c}}\n\
         - {name: wide, hosts: ['*.a.test'], matches: [{path: {prefix: /w}}], action: {forward: c}}\n\
         - {name: host, hosts: [x.a.test], matches: [{path: {prefix: /p}}], action: {forward: c}}\n\
         - {name: long, hosts: [x.a.test], matches: [{path: {prefix: /p/q/}}], action: {forward: c}}\n\
         - {name: exact, hosts: [x.a.test], matches: [{path: {exact: /p/q}}], action: {forward: c}}\n\
         - {name: regex, hosts: [x.a.test], matches: [{path: {regex: '/p/[0-9]+'}}], action: {forward: c}}\n\
         - {name: post, hosts: [x.a.test], matches: [{path: {prefix: /p/q}, method: POST}], action: {forward: c}}\n\
         - {name: query, hosts: [x.a.test], matches: [{path: {prefix: /p/q}, query: [{name: k, value: {exact: 'a b'}}]}], action: {forward: c}}\n\
         - {name: spaced, matches: [{path: {exact: '/a%7eb'}}], action: {forward: c}}",
    )
    .unwrap();
    let router = compiled(&http);
    for (host, path, name, prefix) in [
        ("x.a.test", "/p/q", "exact", 4),
        ("x.a.test", "/p/q/r", "long", 4),
        ("x.a.test", "/p/q/", "long", 4),
        ("x.a.test", "/p/qq", "host", 2),
        ("x.a.test", "/p/12", "regex", 5),
        ("x.a.test", "/p/q/r?x=1&k=a+b", "query", 4),
        ("x.a.test", "/p/q/r?k=a%20b", "query", 4),
        ("x.a.test", "/w", "wide", 2),
        ("x.a.test", "/other", "any", 0),
        ("b.a.test", "/p", "any", 0),
        ("a.test", "/w", "any", 0),
        ("", "/a~b", "spaced", 4),
        ("", "/", "any", 0),
    ] {
        assert_eq!(found(&router, &get(host, path)), Some((name.to_owned(), prefix)), "{host} {path}");
    }
    let post = Question { method: "POST", ..get("x.a.test", "/p/q/r") };
    assert_eq!(found(&router, &post).unwrap().0, "post");
    let none: Http =
        serde_saphyr::from_str("routes: [{name: a, hosts: [a.test], action: {forward: c}}]").unwrap();
    assert_eq!(found(&compiled(&none), &get("b.test", "/")), None);
}

#[test]
fn ten_thousand_routes_are_found_as_fast_as_ten() {
    let plan = |count: usize| {
        let mut text = "routes:\n".to_owned();
        for i in 0..count {
            let path = format!("/team{}/service{i}", i % 97);
            writeln!(
                text,
                "- {{name: r{i}, hosts: [h{}.test], matches: [{{path: {{prefix: {path}}}}}], action: {{forward: c}}}}",
                i % 10
            )
            .unwrap();
        }
        serde_saphyr::from_str::<Http>(&text).unwrap()
    };
    let time = |http: &Http| {
        let router = compiled(http);
        let count = http.routes.len();
        let questions: Vec<Question> = (0..count)
            .map(|i| get(&format!("h{}.test", i % 10), &format!("/team{}/service{i}/x", i % 97)))
            .collect();
        for (i, question) in questions.iter().enumerate() {
            assert_eq!(found(&router, question).unwrap().0, format!("r{i}"));
        }
        let rounds = 20_000 / count;
        let mut times: Vec<_> = (0..5)
            .map(|_| {
                let start = Instant::now();
                for question in questions.iter().cycle().take(rounds * count) {
                    question.ask(|asked| assert!(router.find(asked).is_some()));
                }
                start.elapsed()
            })
            .collect();
        times.sort();
        times[0]
    };
    let (few, many) = (time(&plan(10)), time(&plan(10_000)));
    // The caches make some difference; a thousand times the routes would make a thousand times that.
    assert!(many < few * 10, "{few:?} with 10 routes, {many:?} with 10,000");
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]{1,2}", 0..4).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn host() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]", 1..4).prop_map(|labels| labels.join("."))
}

/// A route without its name.
fn route() -> impl Strategy<Value = String> {
    let hosts = prop::collection::vec((host(), any::<bool>()), 0..3).prop_map(|hosts| {
        let hosts = hosts.into_iter().map(|(host, wide)| if wide { format!("'*.{host}'") } else { host });
        hosts.collect::<Vec<_>>().join(", ")
    });
    let pair = || {
        ("[xy]", "[12]").prop_map(|(name, value)| format!("{{name: {name}, value: {{exact: '{value}'}}}}"))
    };
    let path = prop_oneof![
        path().prop_map(|path| format!("path: {{exact: {path}}}, ")),
        path().prop_map(|path| format!("path: {{prefix: {path}}}, ")),
        "[ab]".prop_map(|letter| format!("path: {{regex: '/{letter}.*'}}, ")),
        Just(String::new()),
    ];
    let method = prop_oneof![Just(""), Just("method: GET, "), Just("method: POST, ")];
    let matches = (path, method, prop::collection::vec(pair(), 0..2), prop::collection::vec(pair(), 0..2))
        .prop_map(|(path, method, headers, query)| {
            format!("{{{path}{method}headers: [{}], query: [{}]}}", headers.join(", "), query.join(", "))
        });
    (hosts, prop::collection::vec(matches, 0..3)).prop_map(|(hosts, matches)| {
        format!("hosts: [{hosts}], matches: [{}], action: {{forward: c}}", matches.join(", "))
    })
}

fn question() -> impl Strategy<Value = Question> {
    let pairs = || prop::collection::btree_map("[xy]", "[12]", 0..3);
    let method = prop_oneof![Just("GET"), Just("POST")];
    (method, host(), path(), pairs(), pairs()).prop_map(|(method, host, path, headers, query)| Question {
        method,
        host,
        path,
        query: query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"),
        headers: headers.into_iter().collect(),
    })
}

proptest! {
    #[test]
    fn what_is_found_is_what_the_rules_say(
        routes in prop::collection::vec(route(), 0..12),
        questions in prop::collection::vec(question(), 1..12),
    ) {
        let mut text = "routes:\n".to_owned();
        for (i, route) in routes.iter().enumerate() {
            writeln!(text, "- {{name: r{i}, {route}}}").unwrap();
        }
        if routes.is_empty() {
            text = "routes: []".to_owned();
        }
        let http: Http = serde_saphyr::from_str(&text).unwrap();
        let router = compiled(&http);
        for question in &questions {
            let found = found(&router, question).map(|(name, _)| name);
            prop_assert_eq!(found, by_trying(&http, question), "{:?} in\n{}", question, text);
        }
    }
}
