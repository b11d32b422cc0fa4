//! Hosts that are served apart, and clusters that get their own kind of request.

use std::fmt::Write as _;

use causeway_ir::Protocol;
use causeway_ir::http::HttpAction;

use super::backend::{Client, HttpBackend, get, status};
use crate::support::{Running, eventually, nobody};

/// A listener `in` with these lines below `http`, and clusters by name with more fields.
fn plan(http: &str, clusters: &[(&str, String)]) -> String {
    let mut text =
        format!("listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    http:\n{http}\nclusters:\n");
    for (name, fields) in clusters {
        writeln!(text, "- {{name: {name}, {fields}}}").unwrap();
    }
    text
}

fn at(backend: &HttpBackend) -> String {
    format!("endpoints: [{{address: '{}'}}]", backend.address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_of_a_site_are_served_by_its_routes_alone() {
    let (site, rest) = (HttpBackend::named("site").await, HttpBackend::named("rest").await);
    let http = "      routes: [{name: rest, action: {forward: rest}}]\n\
                \x20     sites:\n\
                \x20     - {name: a, hosts: ['*.a.test'], routes: [{name: only, matches: [{path: {prefix: /only}}], action: {forward: site}}]}\n\
                \x20     misdirected: [b.test]";
    let plan = plan(http, &[("site", at(&site)), ("rest", at(&rest))]);
    let mut running = Running::start(&plan).await;
    let mut client = Client::connect(&running).await;
    for (host, path, expected, body) in [
        ("x.a.test", "/only", 200, "site"),
        ("x.a.test", "/other", 404, "Not Found\n"),
        ("a.test", "/only", 200, "rest"),
        ("b.test", "/", 421, "Misdirected Request\n"),
        ("c.b.test", "/", 200, "rest"),
    ] {
        let (head, answer) = client.ask(get(host, path)).await;
        assert_eq!((status(&head), answer.as_str()), (expected, body), "{host}{path}");
    }
    // A change of one site is seen on the same connection, and counts stay with the route.
    running
        .change(|plan| {
            let Protocol::Http(http) = &mut plan.listeners[0].protocol else { unreachable!("it is HTTP") };
            let mut moved = http.routes.remove(0);
            moved.action =
                HttpAction::Forward(causeway_ir::http::HttpTargets::to(crate::support::name("rest")));
            http.sites[0].routes.push(moved);
        })
        .await;
    let (_, body) = client.ask(get("x.a.test", "/other")).await;
    assert_eq!(body, "rest");
    let (head, _) = client.ask(get("a.test", "/only")).await;
    assert_eq!(status(&head), 404);
    let counted = ["causeway_requests_total", "route=\"rest\"", "class=\"2xx\""];
    eventually("three by that route", || running.metric(&counted) == 3).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_target_has_its_share_and_its_own_changes() {
    let (blue, green, none) = (
        HttpBackend::named("blue").await,
        HttpBackend::named("green").await,
        HttpBackend::named("none").await,
    );
    let http = "      routes:\n\
                \x20     - name: all\n\
                \x20       matches: [{path: {prefix: /api}}]\n\
                \x20       filters:\n\
                \x20       - requestHeaders: {set: [{name: X-To, value: route}, {name: X-Route, value: '1'}]}\n\
                \x20       - rewrite: {path: {prefix: /route}}\n\
                \x20       action:\n\
                \x20         forward:\n\
                \x20         - {cluster: blue, weight: 3, filters: [{requestHeaders: {set: [{name: X-To, value: blue}]}}, {responseHeaders: {add: [{name: X-From, value: blue}]}}]}\n\
                \x20         - {cluster: green, filters: [{rewrite: {host: green.test, path: {prefix: /green}}}]}\n\
                \x20         - {cluster: none, weight: 0}";
    let plan = plan(http, &[("blue", at(&blue)), ("green", at(&green)), ("none", at(&none))]);
    let running = Running::start(&plan).await;
    let mut client = Client::connect(&running).await;
    for _ in 0..200 {
        let (head, body) = client.ask(get("a.test", "/api/x")).await;
        assert_eq!((status(&head), head.contains("x-from: blue")), (200, body == "blue"), "{head}");
    }
    let (to_blue, to_green) = (blue.asked(), green.asked());
    assert!((140..=160).contains(&to_blue.len()), "{} of 200", to_blue.len());
    assert_eq!((to_blue.len() + to_green.len(), none.asked().len()), (200, 0));
    let seen = |asked: &super::backend::Asked| {
        let of = |name: &str| asked.values(name).join(",");
        (asked.line().to_owned(), of("host"), of("x-to"), of("x-route"))
    };
    let words =
        |line: &str, host: &str, to: &str| (line.to_owned(), host.to_owned(), to.to_owned(), "1".to_owned());
    assert!(to_blue.iter().all(|asked| seen(asked) == words("GET /route/x", "a.test", "blue")));
    assert!(to_green.iter().all(|asked| seen(asked) == words("GET /green/x", "green.test", "route")));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_endpoints_answers_what_the_plan_says() {
    let http = "      routes:\n\
                \x20     - {name: none, matches: [{path: {prefix: /none}}], action: {forward: none}}\n\
                \x20     - {name: invalid, matches: [{path: {prefix: /invalid}}], action: {forward: invalid}}\n\
                \x20     - {name: gone, matches: [{path: {prefix: /gone}}], action: {forward: gone}}";
    let gone = format!("noEndpointStatus: 500, endpoints: [{{address: '{}'}}]", nobody().await);
    let clusters = [
        ("none", "endpoints: []".to_owned()),
        ("invalid", "noEndpointStatus: 500".to_owned()),
        ("gone", gone),
    ];
    let running = Running::start(&plan(http, &clusters)).await;
    let mut client = Client::connect(&running).await;
    for (path, expected) in [("/none", 503), ("/invalid", 500), ("/gone", 502)] {
        let (head, _) = client.ask(get("a", path)).await;
        assert_eq!(status(&head), expected, "{path}");
    }
    running.stop().await;
}
