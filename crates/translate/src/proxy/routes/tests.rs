use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_api::{ProxyServer, RouteKind, SuppliedRoute};
use causeway_ir as ir;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::*;
use crate::grants::Grants;
use crate::proxy::{Bind, Network, translate, validate};
use crate::services::Services;

/// A ProxyServer `edge/edge` with backend `inline.test` on the main port, 443, and a port each for TLS and TCP routes.
fn proxy(allowed: &Value) -> ProxyServer {
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer",
        "metadata": {"name": "edge", "namespace": "edge"},
        "spec": {
            "networkConfig": {"serverIP": "192.168.100.4"},
            "backends": [{
                "name": "inline", "hostname": "inline.test", "port": 443,
                "targetService": "inline", "targetPort": 443, "targetNamespace": "edge",
            }],
            "ports": [{"port": 8443}, {"port": 5432, "protocol": "TCP"}],
            "allowedRoutes": allowed,
        },
    }))
    .unwrap()
}

fn everywhere() -> Value {
    json!({"namespaces": {"from": "All"}})
}

fn route(kind: RouteKind, namespace: &str, name: &str, spec: &Value) -> Route {
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind.as_str(),
        "metadata": {
            "name": name, "namespace": namespace, "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    });
    Route::read(kind, &serde_json::from_value(object).unwrap()).unwrap()
}

fn parent(extra: &Value) -> Value {
    let mut parent =
        json!({"group": "causeway.dev", "kind": "ProxyServer", "name": "edge", "namespace": "edge"});
    for (key, value) in extra.as_object().into_iter().flatten() {
        parent[key] = value.clone();
    }
    parent
}

fn tls(namespace: &str, hostnames: &[&str], parent: &Value, backends: &Value) -> Route {
    let spec = json!({"parentRefs": [parent], "hostnames": hostnames, "rules": [{"backendRefs": backends}]});
    route(RouteKind::Tls, namespace, "web", &spec)
}

fn web() -> Value {
    json!([{"name": "web", "port": 443}])
}

/// Attaches in a world where every namespace has a Service `web` of port 443.
fn attached(proxy: &ProxyServer, route: &Route, grants: Option<&Grants>) -> Attached {
    let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
    let namespaces = BTreeMap::from([
        ("edge".to_owned(), labels("platform")),
        ("apps".to_owned(), labels("shop")),
        ("lab".to_owned(), labels("lab")),
    ]);
    let service = |_: &str, name: &str| {
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 443}]}});
        (name == "web").then(|| serde_json::from_value::<Service>(service).unwrap())
    };
    let world = World { grants, namespaces: &namespaces, service: &service };
    attach(proxy, &validate(proxy).unwrap(), route, &world)
}

fn said(attached: &Attached) -> Vec<(bool, &'static str, bool, &'static str)> {
    let one = |parent: &Parent| {
        (parent.accepted.holds, parent.accepted.reason, parent.resolved.holds, parent.resolved.reason)
    };
    attached.parents.iter().map(one).collect()
}

#[test]
fn routes_attach_from_where_the_proxy_says() {
    for (allowed, from_home, from_apps, from_lab) in [
        (Value::Null, true, false, false),
        (json!({"namespaces": {"from": "Same"}}), true, false, false),
        (everywhere(), true, true, true),
        (json!({"namespaces": {"from": "None"}}), false, false, false),
        (
            json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}}),
            false,
            true,
            false,
        ),
    ] {
        let proxy = proxy(&allowed);
        for (namespace, expected) in [("edge", from_home), ("apps", from_apps), ("lab", from_lab)] {
            let found = attached(&proxy, &tls(namespace, &["a.test"], &parent(&json!({})), &web()), None);
            let reason = if expected { "Accepted" } else { "NotAllowedByListeners" };
            assert_eq!(said(&found), [(expected, reason, true, "ResolvedRefs")], "{allowed} {namespace}");
            assert_eq!(found.route.is_some(), expected);
        }
    }
}

#[test]
fn a_route_attaches_to_the_ports_that_it_means() {
    let proxy = proxy(&everywhere());
    for (extra, ports) in [
        (json!({}), vec![443]),
        (json!({"port": 8443}), vec![8443]),
        (json!({"sectionName": "proxy"}), vec![443]),
        (json!({"sectionName": "proxy-8443"}), vec![8443]),
        (json!({"sectionName": "proxy-8443", "port": 443}), vec![]),
        (json!({"port": 5432}), vec![]),
        (json!({"port": 1234}), vec![]),
    ] {
        let found = attached(&proxy, &tls("apps", &["a.test"], &parent(&extra), &web()), None);
        assert_eq!(found.parents[0].ports, ports, "{extra}");
        if ports.is_empty() {
            assert_eq!(found.parents[0].accepted.reason, "NoMatchingParent");
            let message = &found.parents[0].accepted.message;
            assert!(message.contains("443 (proxy), 8443 (proxy-8443)"), "{message}");
        }
    }
    let spec = json!({"parentRefs": [parent(&json!({}))], "rules": [{"backendRefs": web()}]});
    let found = attached(&proxy, &route(RouteKind::Tcp, "apps", "db", &spec), None);
    assert_eq!(found.parents[0].ports, [5432]);
}

#[test]
fn other_parents_are_nothing_to_us() {
    let proxy = proxy(&everywhere());
    for other in [
        json!({"name": "edge"}),
        parent(&json!({"namespace": "lab"})),
        parent(&json!({"name": "other"})),
        parent(&json!({"kind": "Gateway"})),
    ] {
        assert_eq!(attached(&proxy, &tls("apps", &["a.test"], &other, &web()), None).parents, [], "{other}");
    }
}

#[test]
fn what_cannot_be_served_is_said_in_the_words_of_the_gateway_api() {
    let proxy = proxy(&everywhere());
    for (hostnames, says) in [
        (&["10.0.0.1"][..], "is an address"),
        (&["a..b"], "`a..b` is not a server name"),
        (&[], "has no hostnames"),
    ] {
        let found = attached(&proxy, &tls("apps", hostnames, &parent(&json!({})), &web()), None);
        let accepted = &found.parents[0].accepted;
        assert_eq!((accepted.holds, accepted.reason), (false, "UnsupportedValue"));
        assert!(accepted.message.contains(says), "{}", accepted.message);
    }
    for (backends, reason) in [
        (json!([{"name": "gone", "port": 443}]), "BackendNotFound"),
        (json!([{"name": "web", "port": 80}]), "BackendNotFound"),
        (json!([{"name": "web"}]), "BackendNotFound"),
        (json!([{"kind": "Bucket", "group": "x.test", "name": "web", "port": 1}]), "InvalidKind"),
        (json!([]), "BackendNotFound"),
    ] {
        let found = attached(&proxy, &tls("apps", &["a.test"], &parent(&json!({})), &backends), None);
        assert_eq!(said(&found), [(true, "Accepted", false, reason)], "{backends}");
    }
}

#[test]
fn a_route_needs_a_grant_only_for_what_is_not_beside_it() {
    let proxy = proxy(&everywhere());
    let far = json!([{"name": "web", "namespace": "lab", "port": 443}]);
    let near = tls("apps", &["a.test"], &parent(&json!({})), &web());
    let far = tls("apps", &["a.test"], &parent(&json!({})), &far);
    let grant = |kind: &str| {
        let grant = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "lab"},
            "spec": {
                "from": [{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": "apps"}],
                "to": [{"group": "", "kind": "Service", "name": "web"}],
            },
        });
        Grants::read(&[Arc::new(serde_json::from_value(grant).unwrap())])
    };
    for (grants, near_refused, far_refused) in [
        (Grants::default(), false, true),
        (grant("TCPRoute"), false, true),
        (grant("TLSRoute"), false, false),
    ] {
        let refused = |route: &Route| {
            let found = attached(&proxy, route, Some(&grants));
            let target = found.route.unwrap().targets.remove(0);
            assert_eq!(target.refused, found.parents[0].resolved.reason == "RefNotPermitted");
            target.refused
        };
        assert_eq!((refused(&near), refused(&far)), (near_refused, far_refused));
    }
}

fn supplied(kind: RouteKind, name: &str, created: &str, port: u16, hostnames: &[&str]) -> SuppliedRoute {
    serde_json::from_value(json!({
        "kind": kind, "namespace": "apps", "name": name, "created": created, "ports": [port],
        "hostnames": hostnames,
        "targets": [
            {"namespace": "edge", "service": "web", "port": 443, "weight": 3},
            {"namespace": "edge", "service": "new", "port": 443, "weight": 1},
        ],
    }))
    .unwrap()
}

#[test]
fn the_older_route_has_a_name_and_a_backend_of_the_spec_before_any() {
    let proxy = validate(&proxy(&everywhere())).unwrap();
    let tls = |name: &str, created: &str, hostnames: &[&str]| {
        supplied(RouteKind::Tls, name, created, 443, hostnames)
    };
    let routes = [
        tls("late", "2026-03", &["a.test", "b.test"]),
        tls("b-early", "2026-01", &["a.test"]),
        tls("a-early", "2026-01", &["A.test.", "inline.test"]),
        supplied(RouteKind::Tcp, "db-two", "2026-02", 5432, &[]),
        supplied(RouteKind::Tcp, "db-one", "2026-01", 5432, &[]),
    ];
    let claims = Claims::of(&proxy, &routes);
    let has = |port: u16| -> Vec<String> {
        let names = |claim: &Claim<'_>| {
            let names: Vec<String> = claim.server_names.iter().map(ToString::to_string).collect();
            format!("{} {}", claim.route.name, names.join(","))
        };
        claims.at(port).iter().map(names).collect()
    };
    assert_eq!(has(443), ["a-early a.test", "late b.test"]);
    assert_eq!(has(5432), ["db-one "]);
    assert_eq!(claims.lost[&0], ["a.test on port 443 is that of TLSRoute apps/a-early"]);
    assert_eq!(claims.lost[&1], ["a.test on port 443 is that of TLSRoute apps/a-early"]);
    assert_eq!(claims.lost[&2], ["inline.test on port 443 is that of backend inline"]);
    assert_eq!(claims.lost[&3], ["port 5432 is that of TCPRoute apps/db-one"]);
}

#[test]
fn routes_become_routes_of_their_ports_with_weights() {
    let proxy = validate(&proxy(&everywhere())).unwrap();
    let mut idle = supplied(RouteKind::Tls, "idle", "2026-01", 8443, &["idle.test"]);
    idle.targets.iter_mut().for_each(|target| target.weight = 0);
    let mut refused = supplied(RouteKind::Tls, "refused", "2026-01", 443, &["refused.test"]);
    refused.targets.truncate(1);
    refused.targets[0].refused = true;
    let routes = [
        supplied(RouteKind::Tls, "web", "2026-01", 443, &["web.test", "*.web.test"]),
        supplied(RouteKind::Tcp, "db", "2026-01", 5432, &[]),
        idle,
        refused,
    ];
    let service =
        json!({"metadata": {"namespace": "edge", "name": "web"}, "spec": {"ports": [{"port": 443}]}});
    let slice = json!({
        "metadata": {"namespace": "edge", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8443, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.1"]}],
    });
    let services = Services::new(
        [Arc::new(serde_json::from_value(service).unwrap())],
        [Arc::new(serde_json::from_value(slice).unwrap())],
    );
    let bind = [Bind { address: "127.0.0.1".parse().unwrap(), network: Network::Pod }];
    let made = translate(&proxy, &routes, &bind, &services);
    assert_eq!(made.plan.validate(), []);
    let listeners: Vec<(u16, usize)> =
        made.plan.listeners.iter().map(|l| (l.bind.port(), l.route_count())).collect();
    assert_eq!(listeners, [(443, 3), (5432, 1), (8443, 1)]);
    let clusters: Vec<(&str, usize)> =
        made.plan.clusters.iter().map(|c| (&*c.name, c.endpoints.len())).collect();
    assert_eq!(
        clusters,
        [("edge-inline", 0), ("edge/new:443", 0), ("edge/web:443", 1), ("edge/web:443 (refused)", 0)]
    );
    let ir::Protocol::Tcp(db) = &made.plan.listeners[1].protocol else { panic!("{made:?}") };
    let weights: Vec<(&str, u32)> = db.action.targets().iter().map(|t| (&*t.cluster, t.weight)).collect();
    assert_eq!((&*db.name, weights), ("apps/db", vec![("edge/web:443", 3), ("edge/new:443", 1)]));
    let states: Vec<(&str, usize)> =
        made.routes.iter().map(|route| (route.name.as_str(), route.ready_endpoints)).collect();
    assert_eq!(states, [("apps/web", 1), ("apps/db", 1), ("apps/idle", 0), ("apps/refused", 0)]);
}
