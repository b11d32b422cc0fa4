//! What is answered here: redirects, fixed answers, failures; and what is changed on the way.

use causeway_engine::AccessLog;
use serde_json::Value;

use super::backend::{Client, HttpBackend, all_to, get, ok, plan, status};
use crate::support::{Running, eventually, nobody};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_and_fixed_answers_need_no_endpoint() {
    let routes = "      - {name: moved, matches: [{path: {prefix: /old}}], action: {redirect: {scheme: https, host: b.test, path: {prefix: /new}, status: 301}}}\n\
                  \x20     - {name: fixed, matches: [{path: {exact: /fixed}}], action: {respond: {status: 418, headers: [{name: X-Tea, value: pot}], body: short}}}";
    let running = Running::start(&plan(routes, &[])).await;
    let mut client = Client::connect(&running).await;
    let (head, _) = client.ask(get("a.test", "/old/x?y")).await;
    assert!(status(&head) == 301 && head.contains("location: https://b.test/new/x?y\r\n"), "{head}");
    let (head, body) = client.ask(get("a.test", "/fixed")).await;
    assert!(status(&head) == 418 && head.contains("x-tea: pot\r\n") && body == "short", "{head}");
    let (head, _) = client.ask("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
    assert_eq!(status(&head), 204);
    let moved = ["causeway_requests_total", "route=\"moved\"", "class=\"3xx\""];
    eventually("a redirect", || running.metric(&moved) == 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_host_and_path_are_changed_on_the_way() {
    let backend = HttpBackend::answering(|_| {
        b"HTTP/1.1 200 OK\r\nServer: secret\r\nX-Keep: 1\r\nContent-Length: 0\r\n\r\n".to_vec()
    })
    .await;
    let routes = "      - name: all\n        matches: [{path: {prefix: /api}}]\n        action: {forward: c}\n        filters:\n\
                  \x20       - requestHeaders: {set: [{name: X-Set, value: new}], add: [{name: X-Add, value: two}], remove: [X-Gone]}\n\
                  \x20       - responseHeaders: {remove: [server], set: [{name: X-Frame-Options, value: DENY}]}\n\
                  \x20       - rewrite: {host: inside.test, path: {prefix: /v1}}";
    let running = Running::start(&plan(routes, &[("c", &[backend.address])])).await;
    let mut client = Client::connect(&running).await;
    let request = "GET /api/x?y=z HTTP/1.1\r\nHost: a.test\r\nX-Set: old\r\nx-add: one\r\nX-GONE: 1\r\n\r\n";
    let (head, _) = client.ask(request).await;
    assert!(
        !head.contains("secret") && head.contains("X-Keep: 1") && head.contains("x-frame-options: DENY"),
        "{head}"
    );
    let asked = &backend.asked()[0];
    assert_eq!(asked.line(), "GET /v1/x?y=z");
    assert_eq!(asked.values("host"), ["inside.test"]);
    assert_eq!(asked.values("x-forwarded-host"), ["a.test"]);
    assert_eq!(asked.values("x-set"), ["new"]);
    assert_eq!(asked.values("x-add"), ["one", "two"]);
    assert!(asked.values("x-gone").is_empty());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_origins_are_answered_here() {
    let backend = HttpBackend::answering(|_| {
        b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\n\r\n".to_vec()
    })
    .await;
    let routes = "      - {name: all, filters: [{cors: {allowOrigins: ['https://*.a.test'], allowMethods: [PUT]}}], action: {forward: c}}";
    let running = Running::start(&plan(routes, &[("c", &[backend.address])])).await;
    let mut client = Client::connect(&running).await;
    let question = |origin: &str| {
        format!(
            "OPTIONS /x HTTP/1.1\r\nHost: b\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n\r\n"
        )
    };
    let (head, _) = client.ask(question("https://x.a.test")).await;
    assert!(status(&head) == 204 && head.contains("access-control-allow-methods: PUT"), "{head}");
    let (head, _) = client.ask(question("https://evil.test")).await;
    assert!(!head.contains("access-control"), "{head}");
    assert!(backend.asked().is_empty(), "questions are answered here");
    for (origin, granted) in [("https://x.a.test", true), ("https://evil.test", false)] {
        let (head, _) = client.ask(format!("GET / HTTP/1.1\r\nHost: b\r\nOrigin: {origin}\r\n\r\n")).await;
        let said = head.to_ascii_lowercase().matches("access-control-allow-origin").count();
        assert_eq!((status(&head), said), (200, usize::from(granted)), "{head}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_have_their_status_and_say_nothing_inside() {
    let odd = HttpBackend::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx".to_vec()
    })
    .await;
    let mute = HttpBackend::answering(|_| Vec::new()).await;
    let slow = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let routes = "      - {name: none, matches: [{path: {prefix: /none}}], action: {forward: none}}\n\
                  \x20     - {name: gone, matches: [{path: {prefix: /gone}}], action: {forward: gone}}\n\
                  \x20     - {name: odd, matches: [{path: {prefix: /odd}}], action: {forward: odd}}\n\
                  \x20     - {name: mute, matches: [{path: {prefix: /mute}}], action: {forward: mute}}\n\
                  \x20     - {name: slow, matches: [{path: {prefix: /slow}}], timeouts: {request: 100ms}, action: {forward: slow}}\n\
                  \x20     - {name: late, matches: [{path: {prefix: /late}}], timeouts: {attempt: 100ms}, action: {forward: slow}}";
    let clusters: [(&str, &[_]); 5] = [
        ("none", &[]),
        ("gone", &[nobody().await]),
        ("odd", &[odd.address]),
        ("mute", &[mute.address]),
        ("slow", &[slow.local_addr().unwrap()]),
    ];
    let running = Running::start(&plan(routes, &clusters)).await;
    let mut client = Client::connect(&running).await;
    for (path, expected) in
        [("/none", 503), ("/gone", 502), ("/odd", 502), ("/mute", 502), ("/slow", 504), ("/late", 504)]
    {
        let (head, body) = client.ask(get("a", path)).await;
        assert_eq!(status(&head), expected, "{path}");
        assert!(!head.contains("127.0.0.1") && body.len() < 30, "{path}: {head}{body}");
    }
    eventually("six failures", || running.metric(&["causeway_requests_total", "class=\"5xx\""]) == 6).await;
    assert_eq!(running.metric(&["causeway_request_seconds_bucket", "route=\"slow\"", "+Inf"]), 1);
    assert_eq!(running.metric(&["causeway_request_seconds_bucket", "route=\"slow\"", "le=\"0.05\""]), 0);
    // Two routes lead to the slow one, and to the one without endpoints nothing went.
    assert_eq!(running.metric(&["causeway_cluster_requests_total", "cluster=\"slow\"", "class=\"5xx\""]), 2);
    assert_eq!(running.metric(&["causeway_cluster_request_seconds_bucket", "cluster=\"slow\"", "+Inf"]), 2);
    assert_eq!(running.metric(&["causeway_cluster_requests_total", "cluster=\"mute\""]), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_has_a_line_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let backend = HttpBackend::answering(|_| ok("hello")).await;
    let running = Running::with(&all_to(&[backend.address]), AccessLog::File(path.clone())).await;
    let mut client = Client::connect(&running).await;
    client.ask("POST /a/b?c HTTP/1.1\r\nHost: A.test\r\nContent-Length: 3\r\n\r\nabc").await;
    client.send("GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(status(&client.rest().await), 400);
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    eventually("a line", || !lines().is_empty()).await;
    let line = &lines()[0];
    for (field, value) in
        [("method", "POST"), ("path", "/a/b"), ("host", "a.test"), ("route", "all"), ("cluster", "c")]
    {
        assert_eq!(line[field], value, "{line}");
    }
    assert_eq!(
        (&line["status"], &line["bytesUp"], &line["bytesDown"]),
        (&200.into(), &3.into(), &5.into()),
        "{line}"
    );
    assert_eq!(line["endpoint"], backend.address.to_string());
    running.closed("invalidRequest", 1).await;
    running.stop().await;
}
