use std::fmt::Write as _;
use std::time::{Duration, Instant};

use causeway_ir::Pattern;
use causeway_ir::http::Scheme;
use proptest::prelude::*;

use super::*;
use crate::http::answer::Arrival;

/// A request in words.
#[derive(Debug, Clone)]
struct Question {
    method: String,
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
        let arrival = Arrival { scheme: Scheme::Http, port: 80 };
        let introduction = Introduction::new(([192, 0, 2, 1], 1).into(), arrival, None, &[]);
        answer(&Asked {
            told: Some(ToldOn { introduction: &introduction, authority: &self.host }),
            method: &self.method,
            host: &self.host,
            path: &self.path,
            query: Some(self.query.as_bytes()),
            fields,
        })
    }
}

impl Question {
    /// What an endpoint hears by this name: what tells of the client is never what the client says.
    fn value(&self, name: &str) -> Option<String> {
        match name {
            "x-forwarded-for" => Some("192.0.2.1".to_owned()),
            "x-forwarded-port" => Some("80".to_owned()),
            "x-forwarded-host" => Some(self.host.clone()).filter(|host| !host.is_empty()),
            "x-real-ip" => None,
            _ => {
                let same = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
                let values: Vec<&str> = same.map(|(_, value)| value.as_str()).collect();
                (!values.is_empty()).then(|| values.join(","))
            }
        }
    }
}

fn get(host: &str, path: &str) -> Question {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Question {
        method: "GET".to_owned(),
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: Vec::new(),
    }
}

fn compiled(http: &Http) -> Router<String> {
    Router::compile(http, None, |_| None, |route| Some(route.name.to_string())).unwrap()
}

fn found(router: &Router<String>, question: &Question) -> Option<(String, usize)> {
    question.ask(|asked| router.find(asked).ok().map(|found| (found.to.clone(), found.prefix)))
}

/// Where a request is looked for: the best of all hosts says so.
fn by_comparing<'a>(http: &'a Http, question: &Question) -> Result<&'a [HttpRoute], Missed> {
    let host = Pattern::Exact(question.host.clone());
    let of_sites = http
        .sites
        .iter()
        .flat_map(|site| site.hosts.iter().map(move |pattern| (pattern, Ok(site.routes.as_slice()))));
    let elsewhere = http.misdirected.iter().map(|pattern| (pattern, Err(Missed::Misdirected)));
    let fitting = of_sites.chain(elsewhere).filter(|(pattern, _)| pattern.covers(&host));
    let rank = |pattern: &Pattern| match pattern {
        Pattern::Exact(_) => usize::MAX,
        Pattern::Below(domain) => domain.len(),
    };
    fitting.max_by_key(|(pattern, _)| rank(pattern)).map_or(Ok(&http.routes[..]), |(_, routes)| routes)
}

/// The same by trying every candidate in its order.
fn by_trying(routes: &[HttpRoute], question: &Question) -> Option<String> {
    let value = |name: &str| question.value(name);
    let parameter = |name: &str| {
        // The escapes that occur here.
        let plain = |text: &str| text.replace("%71", "q").replace("%31", "1");
        let mut pairs = question.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(n, _)| plain(n) == name).map(|(_, v)| plain(v))
    };
    let fits = |request: &RequestMatch| {
        request.path.as_ref().is_none_or(|path| path.is_match(&question.path))
            && request.method.as_ref().is_none_or(|method| method.as_str() == question.method)
            && request.headers.iter().all(|h| value(h.name.as_str()).is_some_and(|v| h.value.is_match(&v)))
            && request.query.iter().all(|q| parameter(&q.name).is_some_and(|v| q.value.is_match(&v)))
    };
    let host = Pattern::Exact(question.host.clone());
    let candidates = precedence::ordered(routes);
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
    let post = Question { method: "POST".to_owned(), ..get("x.a.test", "/p/q/r") };
    assert_eq!(found(&router, &post).unwrap().0, "post");
    let none: Http =
        serde_saphyr::from_str("routes: [{name: a, hosts: [a.test], action: {forward: c}}]").unwrap();
    assert_eq!(found(&compiled(&none), &get("b.test", "/")), None);
}

#[test]
fn the_best_host_of_all_sites_says_where_a_request_is_looked_for() {
    let http: Http = serde_saphyr::from_str(
        "routes:\n\
         - {name: rest, action: {forward: c}}\n\
         sites:\n\
         - name: wide\n  hosts: ['*.a.test']\n  routes:\n\
         \x20 - {name: narrow, hosts: [x.a.test], matches: [{path: {prefix: /n}}], action: {forward: c}}\n\
         \x20 - {name: below, hosts: ['*.test'], action: {forward: c}}\n\
         - {name: one, hosts: [one.a.test, one.b.test], routes: [{name: one, hosts: [one.a.test], action: {forward: c}}]}\n\
         misdirected: [m.a.test, '*.m.test']",
    )
    .unwrap();
    let router = compiled(&http);
    for (host, path, expected) in [
        ("x.a.test", "/n", Ok("narrow")),
        // The next host of the same site, and never a route of another.
        ("x.a.test", "/", Ok("below")),
        ("one.a.test", "/", Ok("one")),
        ("one.b.test", "/", Err(Missed::Nothing)),
        ("m.a.test", "/", Err(Missed::Misdirected)),
        ("x.y.m.test", "/", Err(Missed::Misdirected)),
        ("m.test", "/", Ok("rest")),
        ("a.test", "/", Ok("rest")),
        ("", "/", Ok("rest")),
    ] {
        let found = get(host, path).ask(|asked| router.find(asked).map(|found| found.to.clone()));
        assert_eq!(found, expected.map(str::to_owned), "{host}{path}");
    }
}

#[test]
fn a_site_that_is_the_same_is_compiled_once() {
    let http: Http = serde_saphyr::from_str(
        "sites:\n- {name: a, hosts: [a.test], routes: [{name: one, action: {forward: c}}]}\n\
         - {name: b, hosts: [b.test], routes: [{name: two, action: {forward: c}}]}",
    )
    .unwrap();
    let old = compiled(&http);
    let mut made = Vec::new();
    let new = Router::compile(
        &http,
        None,
        |site| if *site.name == *"a" { old.site("a").cloned() } else { None },
        |route| {
            made.push(route.name.to_string());
            Some(route.name.to_string())
        },
    )
    .unwrap();
    assert_eq!(made, ["two"]);
    assert_eq!(found(&new, &get("a.test", "/")).unwrap().0, "one");
}

#[test]
fn ten_thousand_sites_are_found_as_fast_as_ten() {
    let plan = |count: usize| {
        let mut text = "sites:\n".to_owned();
        for i in 0..count {
            writeln!(
                text,
                "- {{name: s{i}, hosts: [h{i}.test, '*.h{i}.test'], routes: [{{name: r{i}, action: {{forward: c}}}}]}}"
            )
            .unwrap();
        }
        serde_saphyr::from_str::<Http>(&text).unwrap()
    };
    let time = |http: &Http| {
        let router = compiled(http);
        let count = http.sites.len();
        let questions: Vec<Question> = (0..count).map(|i| get(&format!("x.h{i}.test"), "/")).collect();
        let once = || {
            let start = Instant::now();
            for question in questions.iter().cycle().take(20_000) {
                question.ask(|asked| assert!(router.find(asked).is_ok()));
            }
            start.elapsed()
        };
        (0..5).map(|_| once()).min().unwrap()
    };
    let (few, many) = (time(&plan(10)), time(&plan(10_000)));
    assert!(many < few * 10, "{few:?} with 10 sites, {many:?} with 10,000");
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
                    question.ask(|asked| assert!(router.find(asked).is_ok()));
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

/// How long it takes to find 20,000 requests among so many routes, each of which is found by its own.
fn time_of(
    count: usize,
    matched: impl Fn(usize) -> String,
    question: impl Fn(usize) -> Question,
) -> Duration {
    let route = |i| {
        let text = format!("{{name: r{i}, matches: [{{{}}}], action: {{forward: c}}}}", matched(i));
        serde_saphyr::from_str::<HttpRoute>(&text).unwrap()
    };
    let router = compiled(&Http { routes: (0..count).map(route).collect(), ..Http::default() });
    let questions: Vec<Question> = (0..count).map(question).collect();
    for (i, question) in questions.iter().enumerate() {
        assert_eq!(found(&router, question).unwrap().0, format!("r{i}"));
    }
    let once = || {
        let start = Instant::now();
        for question in questions.iter().cycle().take(20_000) {
            question.ask(|asked| assert!(router.find(asked).is_ok()));
        }
        start.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap()
}

#[test]
fn ten_thousand_ways_on_one_path_are_found_as_fast_as_ten() {
    type Kind = (&'static str, fn(usize) -> String, fn(usize) -> Question);
    let with = |header: (String, String)| Question { headers: vec![header], ..get("", "/p") };
    let kinds: [Kind; 4] = [
        (
            "methods",
            |i| format!("path: {{prefix: /p}}, method: M{i}"),
            |i| Question { method: format!("M{i}"), ..get("", "/p") },
        ),
        (
            "values of a parameter",
            |i| format!("path: {{prefix: /p}}, query: [{{name: q, value: {{exact: '{i}'}}}}]"),
            |i| get("", &format!("/p?x=1&q={i}")),
        ),
        (
            "names of parameters",
            |i| format!("query: [{{name: q{i}, value: {{exact: '1'}}}}]"),
            |i| get("", &format!("/p?x=1&q{i}=1")),
        ),
        (
            "several",
            |i| {
                format!(
                    "method: M{}, query: [{{name: a, value: {{exact: '{}'}}}}, {{name: b, value: {{exact: '{}'}}}}]",
                    i % 10,
                    i / 10 % 30,
                    i / 300
                )
            },
            |i| Question {
                method: format!("M{}", i % 10),
                ..get("", &format!("/p?a={}&b={}", i / 10 % 30, i / 300))
            },
        ),
    ];
    for (what, matched, question) in kinds {
        let (few, many) = (time_of(10, matched, question), time_of(10_000, matched, question));
        assert!(many < few * 10, "{what}: {few:?} with 10, {many:?} with 10,000");
    }
    for (what, name) in [("values of a header", false), ("names of headers", true)] {
        let header = |i: usize| {
            if name { (format!("x-{i}"), "1".to_owned()) } else { ("x-user".to_owned(), i.to_string()) }
        };
        let time = |count| {
            let matched = |i| {
                let (name, value) = header(i);
                format!("path: {{prefix: /p}}, headers: [{{name: {name}, value: {{exact: '{value}'}}}}]")
            };
            time_of(count, matched, |i| with(header(i)))
        };
        let (few, many) = (time(10), time(10_000));
        assert!(many < few * 10, "{what}: {few:?} with 10, {many:?} with 10,000");
    }
}

#[test]
fn what_is_under_a_name_is_searched_once_however_often_it_is_told() {
    const TIMES: usize = 20;
    // Nine names at each of three levels: indexes in indexes, which are walked by what a request has.
    let joined = ["1"; TIMES].join(",");
    let route = |i: usize| {
        let names = [('a', i % 9), ('b', i / 9 % 9), ('c', i / 81)];
        let headers = names.map(|(level, n)| format!("{{name: {level}{n}, value: {{exact: '{joined}'}}}}"));
        let text = format!(
            "{{name: r{i}, matches: [{{headers: [{}]}}], action: {{forward: c}}}}",
            headers.join(", ")
        );
        serde_saphyr::from_str::<HttpRoute>(&text).unwrap()
    };
    let router = compiled(&Http { routes: (0..729).map(route).collect(), ..Http::default() });
    let time = |value: &str, times: usize| {
        let names = ["a0", "b0", "c0"].map(|name| vec![(name.to_owned(), value.to_owned()); times]);
        let question = Question { headers: names.concat(), ..get("", "/") };
        assert_eq!(found(&router, &question).unwrap().0, "r0");
        let once = || {
            let start = Instant::now();
            question.ask(|asked| assert!(router.find(asked).is_ok()));
            start.elapsed()
        };
        (0..20).map(|_| once()).min().unwrap()
    };
    let (once, often) = (time(&joined, 1), time("1", TIMES));
    // Twenty times the fields to look at for each of twenty times the fields; in each of the levels again it would be 8,000 times.
    assert!(often < once * 2000, "{once:?} told once, {often:?} told often");
}

#[test]
fn a_thousand_expressions_are_found_as_fast_as_ten() {
    let time = |count| {
        time_of(
            count,
            |i| format!("path: {{regex: '/team{}/service{i}/[0-9]+'}}", i % 7),
            |i| get("", &format!("/team{}/service{i}/12", i % 7)),
        )
    };
    let (few, many) = (time(10), time(1000));
    assert!(many < few * 10, "{few:?} with 10 expressions, {many:?} with 1,000");
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
        "[abc]".prop_map(|method| format!("path: {{call: /{method}}}, ")),
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
        method: method.to_owned(),
        host,
        path,
        query: query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"),
        headers: headers.into_iter().collect(),
    })
}

/// A site without its name, with numbers for the names of its routes.
fn list(routes: &[String], from: usize) -> String {
    let routes = routes.iter().enumerate().map(|(i, route)| format!("{{name: r{}, {route}}}", from + i));
    routes.collect::<Vec<_>>().join(", ")
}

fn pattern() -> impl Strategy<Value = String> {
    (host(), any::<bool>()).prop_map(|(host, wide)| if wide { format!("*.{host}") } else { host })
}

proptest! {
    #[test]
    fn what_is_found_is_what_the_rules_say(
        routes in prop::collection::vec(route(), 0..8),
        sites in prop::collection::vec((prop::collection::vec(pattern(), 1..3), prop::collection::vec(route(), 0..5)), 0..4),
        misdirected in prop::collection::vec(pattern(), 0..2),
        questions in prop::collection::vec(question(), 1..12),
    ) {
        let mut text = format!("routes: [{}]\nsites:\n", list(&routes, 0));
        // A host stands in one place only.
        let mut seen = std::collections::HashSet::new();
        let mut fresh = |hosts: &[String]| {
            let hosts: Vec<_> = hosts.iter().filter(|host| seen.insert((*host).clone())).cloned().collect();
            hosts.iter().map(|host| format!("'{host}'")).collect::<Vec<_>>().join(", ")
        };
        for (s, (hosts, routes)) in sites.iter().enumerate() {
            writeln!(text, "- {{name: s{s}, hosts: [{}], routes: [{}]}}", fresh(hosts), list(routes, 100 * (s + 1))).unwrap();
        }
        if sites.is_empty() {
            text = text.replace("sites:\n", "");
        }
        writeln!(text, "misdirected: [{}]", fresh(&misdirected)).unwrap();
        let http: Http = serde_saphyr::from_str(&text).unwrap();
        let router = compiled(&http);
        for question in &questions {
            let found = question.ask(|asked| router.find(asked).map(|found| found.to.clone()));
            let expected = by_comparing(&http, question)
                .and_then(|routes| by_trying(routes, question).ok_or(Missed::Nothing));
            prop_assert_eq!(found, expected, "{:?} in\n{}", question, text);
        }
    }
}

/// Names of which there are more than are tried one by one, some of them for what tells of clients.
fn header(values: &'static str) -> impl Strategy<Value = (String, String)> {
    let told = [
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-port", "80"),
        ("x-forwarded-port", "1"),
        ("x-forwarded-host", "a"),
        ("x-real-ip", "1"),
    ];
    let told = prop::sample::select(told.to_vec()).prop_map(|(n, v)| (n.to_owned(), v.to_owned()));
    prop_oneof![6 => ("h[0-9a-c]", values), 1 => told]
}

/// One of many ways on the same few paths.
fn way() -> impl Strategy<Value = String> {
    let value = |(name, value): (String, String)| match value.as_str() {
        "any" => format!("{{name: {name}, value: {{regex: '[12],?.*'}}}}"),
        _ => format!("{{name: {name}, value: {{exact: '{value}'}}}}"),
    };
    let headers = prop::collection::vec(header("[12]|1,2|any").prop_map(value), 0..3);
    let query = prop::collection::vec(("q[0-3]", "[12]|any").prop_map(value), 0..3);
    let path = prop_oneof![
        3 => Just("prefix: /a".to_owned()),
        2 => Just("exact: /a/b".to_owned()),
        2 => "/a(/b|/\\[ab\\]\\+|\\.\\*|/b\\?){1,3}".prop_map(|regex| format!("regex: '{regex}'")),
    ];
    let method =
        prop_oneof![2 => Just(String::new()), 1 => "M[0-9a-c]".prop_map(|m| format!("method: {m}, "))];
    (path, method, headers, query).prop_map(|(path, method, headers, query)| {
        let (headers, query) = (headers.join(", "), query.join(", "));
        format!(
            "matches: [{{path: {{{path}}}, {method}headers: [{headers}], query: [{query}]}}], action: {{forward: c}}"
        )
    })
}

/// A request for some of them, with fields and parameters of the same name, and others.
fn question_of_ways() -> impl Strategy<Value = Question> {
    let path = prop::sample::select(vec!["/a", "/a/b", "/a/b/b", "/a/ab/b", "/a/c", "/b"]);
    let method = prop_oneof![1 => Just("GET".to_owned()), 3 => "M[0-9a-c]"];
    let header = (header("[12]"), any::<bool>())
        .prop_map(|((n, v), upper)| if upper { (n.to_ascii_uppercase(), v) } else { (n, v) });
    let headers = prop::collection::vec(header, 0..14);
    let query = prop::collection::vec("(q|%71|x)[0-3](=([12]|%31))?", 0..8);
    (method, prop_oneof![Just("a"), Just("")], path, query, headers).prop_map(
        |(method, host, path, query, headers)| Question {
            method,
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.join("&"),
            headers,
        },
    )
}

proptest! {
    #[test]
    fn of_many_ways_on_one_path_the_first_that_fits_is_found(
        ways in prop::collection::vec(way(), 9..120),
        questions in prop::collection::vec(question_of_ways(), 1..40),
    ) {
        let text = format!("routes: [{}]", list(&ways, 0));
        let http: Http = serde_saphyr::from_str(&text).unwrap();
        let router = compiled(&http);
        for question in &questions {
            let found = found(&router, question).map(|(name, _)| name);
            prop_assert_eq!(found, by_trying(&http.routes, question), "{:?} in\n{}", question, text);
        }
    }
}
