//! Which routes attach to which listeners.

use super::*;

fn attempt(listeners: &str, parent: &str, namespace: &str, hostnames: &str) -> Picture {
    let spec = format!(
        "{{parentRefs: [{{name: gw, namespace: infra{parent}}}], hostnames: {hostnames}, rules: [{{backendRefs: [{{name: web, port: 8080}}]}}]}}"
    );
    Scene::new([gateway(listeners), object("HTTPRoute", namespace, "web", &spec)]).picture()
}

#[test]
fn a_route_attaches_by_section_port_kind_namespace_and_host() {
    const TWO: &str = "[
        {name: http, port: 80, protocol: HTTP, hostname: '*.a.test'},
        {name: other, port: 8080, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}]}},
        {name: tcp, port: 9000, protocol: TCP},
        {name: bad, port: 8081, protocol: SCTP},
    ]";
    for (parent, namespace, hostnames, expected, attached) in [
        ("", "infra", "[x.a.test]", ("True", "Accepted"), [1, 0, 0]),
        ("", "infra", "[]", ("True", "Accepted"), [1, 0, 0]),
        (", sectionName: http", "infra", "['*.test']", ("True", "Accepted"), [1, 0, 0]),
        (", port: 80", "infra", "[x.a.test, y.b.test]", ("True", "Accepted"), [1, 0, 0]),
        (", port: 80, sectionName: http", "infra", "[]", ("True", "Accepted"), [1, 0, 0]),
        (", port: 81", "infra", "[]", ("False", "NoMatchingParent"), [0, 0, 0]),
        (", sectionName: http, port: 8080", "infra", "[]", ("False", "NoMatchingParent"), [0, 0, 0]),
        (", sectionName: nowhere", "infra", "[]", ("False", "NoMatchingParent"), [0, 0, 0]),
        (", sectionName: bad", "infra", "[]", ("False", "NoMatchingParent"), [0, 0, 0]),
        (", sectionName: other", "infra", "[]", ("False", "NotAllowedByListeners"), [0, 0, 0]),
        (", sectionName: tcp", "infra", "[]", ("False", "NotAllowedByListeners"), [0, 0, 0]),
        ("", "apps", "[]", ("False", "NotAllowedByListeners"), [0, 0, 0]),
        ("", "infra", "[y.b.test]", ("False", "NoMatchingListenerHostname"), [0, 0, 0]),
        ("", "infra", "[a.test]", ("False", "NoMatchingListenerHostname"), [0, 0, 0]),
        ("", "infra", "['not a name']", ("False", "NoMatchingListenerHostname"), [0, 0, 0]),
    ] {
        let picture = attempt(TWO, parent, namespace, hostnames);
        let entry = picture.parent(RouteKind::Http, namespace, "web", 0);
        assert_eq!(condition(entry, "Accepted"), expected, "{parent} {namespace} {hostnames}: {entry}");
        assert_eq!(condition(entry, "ResolvedRefs"), ("True", "ResolvedRefs"));
        let counts =
            ["http", "other", "tcp"].map(|name| picture.listener(name)["attachedRoutes"].as_u64().unwrap());
        assert_eq!(counts, attached, "{parent} {namespace} {hostnames}");
    }
}

#[test]
fn namespaces_are_chosen_by_all_same_none_and_labels() {
    for (from, namespace, expected) in [
        ("{from: All}", "apps", true),
        ("{from: Same}", "apps", false),
        ("{from: Same}", "infra", true),
        ("{from: None}", "infra", false),
        ("{from: Selector, selector: {matchLabels: {team: shop}}}", "apps", true),
        ("{from: Selector, selector: {matchLabels: {team: shop}}}", "infra", false),
        (
            "{from: Selector, selector: {matchExpressions: [{key: team, operator: In, values: [shop, x]}]}}",
            "apps",
            true,
        ),
        ("{from: Selector}", "apps", false),
        ("{}", "infra", true),
    ] {
        let listener =
            format!("[{{name: http, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {from}}}}}]");
        let picture = attempt(&listener, "", namespace, "[]");
        let entry = picture.parent(RouteKind::Http, namespace, "web", 0);
        let status = if expected { "True" } else { "False" };
        assert_eq!(condition(entry, "Accepted").0, status, "{from} {namespace}");
    }
}

#[test]
fn a_route_that_two_references_attach_is_counted_and_served_once() {
    let spec = "{parentRefs: [{name: gw}, {name: gw, sectionName: http}], rules: [{backendRefs: [{name: web, port: 8080}]}]}";
    let picture = Scene::new([gateway(HTTP), object("HTTPRoute", "infra", "web", spec)]).picture();
    assert_eq!(picture.listener("http")["attachedRoutes"], 1);
    assert_eq!(picture.rules().len(), 1);
    for place in [0, 1] {
        let entry = picture.parent(RouteKind::Http, "infra", "web", place);
        assert_eq!(condition(entry, "Accepted"), ("True", "Accepted"));
    }
}

#[test]
fn references_are_written_as_the_api_server_would_complete_them() {
    let picture = Scene::new([gateway(HTTP), http_route("web", "")]).picture();
    assert_eq!(
        picture.http("web")["parentRef"],
        json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw"})
    );
}

#[test]
fn backends_of_other_namespaces_need_a_grant() {
    let route = http_route("web", "rules: [{backendRefs: [{name: web, namespace: apps, port: 8080}]}]");
    let grant = |kind: &str| {
        let spec = format!(
            "{{from: [{{group: gateway.networking.k8s.io, kind: {kind}, namespace: infra}}], to: [{{group: '', kind: Service, name: web}}]}}"
        );
        object("ReferenceGrant", "apps", "g", &spec)
    };
    let refused = Scene::new([gateway(HTTP), route.clone(), grant("GRPCRoute")]).picture();
    assert_eq!(condition(refused.http("web"), "ResolvedRefs"), ("False", "RefNotPermitted"));
    assert!(message(refused.http("web"), "ResolvedRefs").contains("create a ReferenceGrant in apps"));
    assert_eq!(targets(&refused.rules()[0]), [("apps/web:8080 invalid", 1)]);
    let let_in = Scene::new([gateway(HTTP), route, grant("HTTPRoute")]).picture();
    assert_eq!(condition(let_in.http("web"), "ResolvedRefs"), ("True", "ResolvedRefs"));
    assert_eq!(let_in.plan().clusters[0].endpoints[0].address.to_string(), "10.0.1.1:3000");
}

#[test]
fn a_route_that_another_is_served_before_is_told_so() {
    let older = aged(2020, http_route("z-older", "hostnames: [a.test]"));
    let newer = aged(2024, http_route("a-newer", "hostnames: [a.test]"));
    let beside = aged(2024, http_route("beside", "hostnames: [b.test]"));
    let picture = Scene::new([gateway(HTTP), newer, older, beside]).picture();
    let names: Vec<_> = picture.rules().iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names[0], "HTTPRoute/infra/z-older#0@http");
    assert_eq!(picture.listener("http")["attachedRoutes"], 3);
    let lost = picture.http("a-newer");
    assert_eq!(condition(lost, "Accepted"), ("True", "Accepted"));
    assert_eq!(condition(lost, "causeway.dev/Overshadowed"), ("True", "OtherRouteServes"));
    assert!(message(lost, "causeway.dev/Overshadowed").contains("infra/z-older"));
    for name in ["z-older", "beside"] {
        assert_eq!(condition(picture.http(name), "causeway.dev/Overshadowed"), ("", ""), "{name}");
    }
}

#[test]
fn a_route_that_is_alone_again_is_no_longer_told() {
    let older = aged(2020, http_route("older", ""));
    let newer = aged(2024, http_route("newer", ""));
    let lost = Scene::new([gateway(HTTP), older, newer.clone()]).picture();
    let mut alone = newer;
    alone["status"] = json!({"parents": [lost.http("newer")]});
    let picture = Scene::new([gateway(HTTP), alone]).picture();
    assert_eq!(condition(lost.http("newer"), "causeway.dev/Overshadowed").0, "True");
    assert_eq!(condition(picture.http("newer"), "causeway.dev/Overshadowed"), ("", ""));
}
