//! What is asked of requests before they go on, and what clients hear instead of an answer.

use std::fmt::Write as _;
use std::net::SocketAddr;

use causeway_engine::AccessLog;
use causeway_ir::Protocol;

use super::backend::{Client, HttpBackend, get, ok, plan, status};
use crate::support::{Running, nobody};

/// A listener `in` with these lines below `http`, and clusters by name.
fn with_http(http: &str, clusters: &[(&str, &[SocketAddr])]) -> String {
    plan("", clusters).replace("      routes:\n", &format!("{http}\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_long_is_refused_as_soon_as_that_is_known() {
    let backend = HttpBackend::named("ok").await;
    let routes = "      - {name: all, policies: {bodyLimit: 1Ki}, action: {forward: c}}";
    let running = Running::start(&plan(routes, &[("c", &[backend.address])])).await;
    let post = |length: usize| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let mut client = Client::connect(&running).await;
    let (head, _) = client.ask(format!("{}{}", post(1024), "x".repeat(1024))).await;
    assert_eq!(status(&head), 200);
    // Nothing of the body is waited for.
    let (head, _) = client.ask(post(1025)).await;
    assert!(status(&head) == 413 && head.contains("connection: close"), "{head}");
    assert_eq!(backend.asked().len(), 1);

    let mut client = Client::connect(&running).await;
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("200\r\n{}\r\n", "x".repeat(512));
    let (head, _) = client.ask(format!("{chunked}{chunk}{chunk}0\r\n\r\n")).await;
    assert_eq!(status(&head), 200);
    let (head, _) = client.ask(format!("{chunked}{chunk}{chunk}1\r\nx\r\n")).await;
    assert_eq!(status(&head), 413);
    // The endpoint never got a whole request of it.
    assert_eq!(backend.asked().len(), 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let backend = HttpBackend::named("ok").await;
    let routes = "      - {name: all, policies: {rateLimit: {requests: 2, per: 1h, burst: 3}}, action: {forward: c}}\n\
                  \x20     - {name: free, matches: [{path: {prefix: /free}}], action: {forward: c}}";
    let mut running = Running::start(&plan(routes, &[("c", &[backend.address])])).await;
    let mut client = Client::connect(&running).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let (head, _) = client.ask(get("a", "/")).await;
        assert_eq!(head.contains("retry-after: "), status(&head) == 429, "{head}");
        statuses.push(status(&head));
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    // A change of the plan forgives nothing.
    running.change(|plan| plan.drain_timeout = std::time::Duration::from_secs(7)).await;
    assert_eq!(status(&Client::connect(&running).await.ask(get("a", "/")).await.0), 429);
    assert_eq!(status(&client.ask(get("a", "/free")).await.0), 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_known_by_the_word_of_trusted_proxies_and_of_nobody_else() {
    let backend = HttpBackend::named("ok").await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("access.log");
    for (trusted, forwarded, expected, chain, elements) in [
        ("127.0.0.0/8", "10.1.2.3", 200, "10.1.2.3, 127.0.0.1", "for=10.1.2.3;proto=https, "),
        (
            "127.0.0.0/8",
            "6.6.6.6, 10.1.2.3, 127.0.0.9",
            200,
            "10.1.2.3, 127.0.0.9, 127.0.0.1",
            "for=10.1.2.3;proto=https, for=127.0.0.9, ",
        ),
        ("127.0.0.0/8", "10.1.2.3, 192.0.2.1", 403, "", ""),
        ("192.0.2.0/24", "10.1.2.3", 403, "", ""),
    ] {
        let http = format!(
            "      trustedProxies: {{from: [{trusted}]}}\n\
             \x20     routes: [{{name: all, policies: {{allowedClients: [10.0.0.0/8]}}, action: {{forward: c}}}}]"
        );
        let plan = with_http(&http, &[("c", &[backend.address])]);
        let running = Running::with(&plan, AccessLog::File(log.clone())).await;
        let before = backend.asked().len();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {forwarded}\r\nX-Forwarded-Proto: https\r\nForwarded: for=10.0.0.1\r\n\r\n"
        );
        let (head, _) = Client::connect(&running).await.ask(request).await;
        assert_eq!(status(&head), expected, "{trusted} {forwarded}");
        if expected == 200 {
            let asked = &backend.asked()[before];
            assert_eq!(asked.values("x-forwarded-for"), [chain]);
            assert_eq!(asked.values("x-forwarded-proto"), ["https"]);
            assert_eq!(asked.values("x-forwarded-port"), ["443"]);
            // The client's own `Forwarded` is gone; what is known of it is said in both headers.
            assert_eq!(asked.values("forwarded"), [format!("{elements}for=127.0.0.1;proto=http;host=a")]);
        } else {
            assert_eq!(backend.asked().len(), before);
        }
        running.stop().await;
    }
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.lines().next().unwrap().contains("\"forwardedFor\":\"10.1.2.3\""), "{logged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expression_makes_another_path() {
    let backend = HttpBackend::named("ok").await;
    let rewrite =
        "{rewrite: {path: {regex: {pattern: '/users/([0-9]+)/(?<rest>.*)', with: '/${rest}/of/$1'}}}}";
    let routes = format!(
        "      - {{name: all, filters: [{rewrite}], action: {{forward: c}}}}\n\
         \x20     - {{name: moved, matches: [{{path: {{prefix: /old}}}}], action: {{redirect: {{path: {{regex: {{pattern: '/old(/.*)?', with: '/new$1'}}}}}}}}}}"
    );
    let running = Running::start(&plan(&routes, &[("c", &[backend.address])])).await;
    let mut client = Client::connect(&running).await;
    for (path, expected) in [("/users/7/a/b?q", "/a/b/of/7?q"), ("/users/x/a", "/users/x/a")] {
        assert_eq!(status(&client.ask(get("a", path)).await.0), 200);
        assert_eq!(backend.asked().last().unwrap().line(), format!("GET {expected}"));
    }
    let (head, _) = client.ask(get("a", "/old/x")).await;
    assert!(head.lines().any(|line| line.starts_with("location: ") && line.ends_with("/new/x")), "{head}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_get_requests_only_while_the_first_have_no_endpoint() {
    let (first, second) = (HttpBackend::named("first").await, HttpBackend::named("second").await);
    let routes = "      - {name: all, action: {forward: [{cluster: a}, {cluster: b, priority: 1}]}}";
    let clusters: [(&str, &[SocketAddr]); 2] = [("a", &[first.address]), ("b", &[second.address])];
    let mut running = Running::start(&plan(routes, &clusters)).await;
    let mut client = Client::connect(&running).await;
    for _ in 0..5 {
        assert_eq!(client.ask(get("x", "/")).await.1, "first");
    }
    running.change(|plan| plan.clusters[0].endpoints[0].ready = false).await;
    running.change(|plan| plan.clusters[0].endpoints[0].serving = false).await;
    assert_eq!(client.ask(get("x", "/")).await.1, "second");
    running.change(|plan| plan.clusters[0].endpoints[0].ready = true).await;
    assert_eq!(client.ask(get("x", "/")).await.1, "first");
    // An endpoint that is rested for failing is none.
    let gone = nobody().await;
    running
        .change(|plan| {
            plan.clusters[0].endpoints[0].address = gone.into();
            plan.clusters[0].ejection.consecutive_failures = 1;
        })
        .await;
    // The request that finds out goes on to the others: nobody has seen it.
    assert_eq!(client.ask(get("x", "/")).await.1, "second");
    assert_eq!(client.ask(get("x", "/")).await.1, "second");
    // With no endpoint anywhere the first ones say so.
    running
        .change(|plan| {
            plan.clusters[0].no_endpoint_status = 500;
            plan.clusters.iter_mut().for_each(|cluster| cluster.endpoints.clear());
        })
        .await;
    assert_eq!(status(&client.ask(get("x", "/")).await.0), 500);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_pages_of_the_route_or_of_the_listener() {
    let http = "      errorPages: [{statuses: [404, 503], page: listener}]\n\
                \x20     routes:\n\
                \x20     - {name: one, matches: [{path: {prefix: /one}}], policies: {errorPages: [{statuses: [503], page: route}]}, action: {forward: none}}\n\
                \x20     - {name: two, matches: [{path: {prefix: /two}}], action: {forward: none}}\n\
                \x20     - {name: own, matches: [{path: {prefix: /own}}], action: {forward: c}}";
    let backend =
        HttpBackend::answering(|_| b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nown".to_vec()).await;
    let pages = "pages: [{name: listener, body: '<p>listener</p>'}, {name: route, contentType: text/plain, body: route}]";
    let plan = with_http(http, &[("none", &[]), ("c", &[backend.address])]);
    let mut running = Running::start(&format!("{plan}{pages}")).await;
    let mut client = Client::connect(&running).await;
    for (path, expected, kind, body) in [
        ("/one", 503, "text/plain", "route"),
        ("/two", 503, "text/html; charset=utf-8", "<p>listener</p>"),
        ("/", 404, "text/html; charset=utf-8", "<p>listener</p>"),
    ] {
        let (head, said) = client.ask(get("a", path)).await;
        assert_eq!((status(&head), said.as_str()), (expected, body), "{path}");
        assert!(head.contains(&format!("content-type: {kind}\r\n")), "{head}");
    }
    // What an endpoint says is its own.
    assert_eq!(client.ask(get("a", "/own")).await.1, "own");
    // A page changes without its routes, and they without it.
    running.change(|plan| plan.pages[0].body = "later".to_owned()).await;
    assert_eq!(client.ask(get("a", "/two")).await.1, "later");
    assert_eq!(client.ask(get("a", "/")).await.1, "later");
    assert_eq!(client.ask(get("a", "/one")).await.1, "route");
    running
        .change(|plan| {
            plan.pages.remove(1);
            let Protocol::Http(http) = &mut plan.listeners[0].protocol else { unreachable!("it is HTTP") };
            http.routes[0].policies.error_pages.clear();
        })
        .await;
    assert_eq!(client.ask(get("a", "/one")).await.1, "later");
    running.stop().await;
}

/// The value of a session in a head, if it begins one.
fn session(head: &str, start: &str) -> Option<String> {
    let line = head.lines().find_map(|line| line.strip_prefix(start))?;
    line.split(';').next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_stays_with_its_endpoint_while_that_is_there() {
    let mut backends = Vec::new();
    let mut names = String::new();
    for name in ["a", "b", "c", "d"] {
        backends.push(HttpBackend::answering(move |_| ok(name)).await);
        write!(names, "{name}").unwrap();
    }
    let addresses: Vec<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
    for (policy, start, bring) in [
        ("{name: stay}", "set-cookie: stay=", "Cookie: x=y; stay="),
        ("{by: header, name: X-Stay}", "x-stay: ", "X-Stay: "),
    ] {
        let routes = format!(
            "      - {{name: all, policies: {{persistence: {policy}}}, action: {{forward: [{{cluster: one}}, {{cluster: two}}]}}}}"
        );
        let clusters = [("one", &addresses[..2]), ("two", &addresses[2..])];
        let mut running = Running::start(&plan(&routes, &clusters)).await;
        let mut client = Client::connect(&running).await;
        let (head, first) = client.ask(get("x", "/")).await;
        let token = session(&head, start).expect("a session");
        // It tells nothing of addresses.
        assert!(
            !addresses
                .iter()
                .any(|address| token.contains(&address.port().to_string()) && token.contains("127"))
        );
        let with = |token: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{bring}{token}\r\n\r\n");
        for _ in 0..12 {
            let (head, body) = client.ask(with(&token)).await;
            assert_eq!((body.as_str(), session(&head, start)), (first.as_str(), None));
        }
        // Others are spread, and who makes a session up is nobody.
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..12 {
            let (head, body) = client.ask(with(&"0".repeat(token.len()))).await;
            assert!(session(&head, start).is_some());
            seen.insert(body);
        }
        assert!(seen.len() > 1, "{seen:?}");
        // Once the endpoint is gone the client gets another, and stays there.
        let gone = addresses[names.find(&first).unwrap()];
        running
            .change(|plan| {
                let keeps = |endpoint: &causeway_ir::Endpoint| endpoint.address.socket() != Some(gone);
                plan.clusters.iter_mut().for_each(|cluster| cluster.endpoints.retain(keeps));
            })
            .await;
        let (head, second) = client.ask(with(&token)).await;
        assert_ne!(second, first);
        let token = session(&head, start).expect("another session");
        for _ in 0..6 {
            assert_eq!(client.ask(with(&token)).await.1, second);
        }
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_its_proxy_does_not_name_is_nobody() {
    let backend = HttpBackend::named("ok").await;
    let http = "      trustedProxies: {from: [127.0.0.0/8]}\n\
                \x20     routes:\n\
                \x20     - {name: some, matches: [{path: {prefix: /some}}], policies: {allowedClients: [127.0.0.0/8, 10.0.0.0/8]}, action: {forward: c}}\n\
                \x20     - {name: all, action: {forward: c}}";
    let running = Running::start(&with_http(http, &[("c", &[backend.address])])).await;
    let mut client = Client::connect(&running).await;
    for (said, path, expected) in [
        ("X-Forwarded-For: 10.0.0.1\r\n", "/some", 200),
        ("X-Forwarded-For: unknown\r\n", "/some", 403),
        ("X-Forwarded-For: 10.0.0.1, _hidden\r\n", "/some", 403),
        ("X-Forwarded-For: junk, 127.0.0.9\r\n", "/some", 403),
        ("X-Forwarded-For: unknown\r\n", "/all", 200),
        // The proxy itself.
        ("", "/some", 200),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{said}\r\n");
        assert_eq!(status(&client.ask(request).await.0), expected, "{said} {path}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_with_the_endpoint_that_answered() {
    let backend = HttpBackend::named("here").await;
    let routes = "      - {name: all, policies: {persistence: {name: stay}}, action: {forward: c}}";
    let dead = [nobody().await, nobody().await, nobody().await];
    let endpoints = [dead[0], dead[1], dead[2], backend.address];
    let text = plan(routes, &[("c", &endpoints)])
        .replace("name: c,", "name: c, retries: 9, ejection: {consecutiveFailures: 1000},");
    let running = Running::start(&text).await;
    let mut client = Client::connect(&running).await;
    for _ in 0..8 {
        let (head, body) = client.ask(get("x", "/")).await;
        assert_eq!(body, "here");
        let token = session(&head, "set-cookie: stay=").expect("a session");
        let (head, body) =
            client.ask(format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: stay={token}\r\n\r\n")).await;
        assert_eq!((body.as_str(), session(&head, "set-cookie: stay=")), ("here", None));
    }
    running.stop().await;
}
