//! Any request, by routes of every kind: finding one never panics, and what goes on leads the same way again. So nobody behind us
//! who looks at it with the same routes takes it for something else.

use std::fmt::Write;

use causeway_engine::front::Front;

/// Some of each kind. What is many is compiled in another way, so there are more of each.
const ROUTES: &str = r#"{
  "sites": [{"name": "apart", "hosts": ["apart.test", "*.apart.test"], "routes": [
    {"name": "site", "matches": [{"path": {"prefix": "/s"}}], "action": {"forward": "c"}}]}],
  "misdirected": ["lost.test"],
  "routes": [
    {"name": "any", "action": {"forward": "c"}},
    {"name": "wild", "hosts": ["*.a.test"], "matches": [{"path": {"prefix": "/w"}}], "action": {"forward": "c"}},
    {"name": "long", "hosts": ["x.a.test"], "matches": [{"path": {"prefix": "/p/q"}}], "action": {"forward": "c"}},
    {"name": "exact", "hosts": ["x.a.test"], "matches": [{"path": {"exact": "/p/q"}}], "action": {"forward": "c"}},
    {"name": "regex", "matches": [{"path": {"regex": "/p/[0-9a-f%]+"}}], "action": {"forward": "c"}},
    {"name": "post", "matches": [{"path": {"prefix": "/p"}, "method": "POST"}], "action": {"forward": "c"}},
    {"name": "header", "matches": [{"headers": [{"name": "X-Who", "value": {"regex": "a+b?"}}]}], "action": {"forward": "c"}},
    {"name": "query", "matches": [{"query": [{"name": "k", "value": {"exact": "a b"}}]}], "action": {"forward": "c"}}
    MORE
  ]
}"#;

/// Ways on one path by a method, a header, a parameter and several of them, and expressions for paths.
fn routes() -> String {
    let mut more = String::new();
    for i in 0..12 {
        let header = format!(r#"{{"name": "X-{}", "value": {{"exact": "{i}"}}}}"#, i % 10);
        let told = format!(r#"{{"name": "X-Forwarded-Port", "value": {{"exact": "8{i}"}}}}"#);
        let parameter = format!(r#"{{"name": "p{}", "value": {{"exact": "{i}"}}}}"#, i % 3);
        let matches = [
            format!(r#""method": "M{i}""#),
            format!(r#""headers": [{header}]"#),
            format!(r#""headers": [{told}, {header}]"#),
            format!(r#""query": [{parameter}]"#),
            format!(r#""method": "GET", "headers": [{header}], "query": [{parameter}]"#),
            format!(r#""path": {{"regex": "/[a-z]{{1,{}}}/{i}.*|/p/x{i}\\b.*"}}"#, i + 1),
        ];
        for (kind, matched) in matches.iter().enumerate() {
            let _ = write!(
                more,
                r#", {{"name": "more-{i}-{kind}", "matches": [{{{matched}}}], "action": {{"forward": "c"}}}}"#
            );
        }
    }
    ROUTES.replace("MORE", &more)
}

pub(crate) fn run(bytes: &[u8]) {
    thread_local!(static FRONT: Front = Front::by(&routes()));
    FRONT.with(|front| {
        check(front, bytes);
        // Spares the fuzzer the finding of a head: a path, and fields.
        check(front, &[b"GET /", bytes, b" HTTP/1.1\r\nHost: x.a.test\r\n\r\n"].concat());
        check(front, &[b"GET /p HTTP/1.1\r\nHost: b.test\r\n", bytes, b"\r\n\r\n"].concat());
        check(front, &[b"GET /p/x1/2?p1=1&", bytes, b" HTTP/1.1\r\nHost: b.test\r\nX-1: 1\r\n\r\n"].concat());
    });
}

fn check(front: &Front, bytes: &[u8]) {
    // What is of one connection goes no further, even if it led to a route.
    let mut words = bytes.windows(10);
    if words.any(|word| word.eq_ignore_ascii_case(b"connection")) {
        front.pass(bytes);
        return;
    }
    let passed = front.pass(bytes);
    for (request, route) in passed.requests.iter().zip(&passed.routes) {
        assert_eq!(front.pass(request).routes, std::slice::from_ref(route), "{}", request.escape_ascii());
    }
}
