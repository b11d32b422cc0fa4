//! Whatever is written: no panic, a plan that can run, and a status that settles.

use proptest::prelude::*;

use super::*;

static KINDS: [&str; 8] = [
    "Gateway",
    "ListenerSet",
    "HTTPRoute",
    "GRPCRoute",
    "TLSRoute",
    "TCPRoute",
    "UDPRoute",
    "BackendTLSPolicy",
];

/// Words that mean something somewhere, and some that mean nothing.
fn word() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec![
            "gw",
            "web",
            "api",
            "set",
            "cert",
            "ca",
            "infra",
            "apps",
            "http",
            "",
            "*",
            "*.a.test",
            "a.test",
            "b.a.test",
            "HTTP",
            "HTTPS",
            "TLS",
            "TCP",
            "UDP",
            "Terminate",
            "Passthrough",
            "All",
            "Same",
            "Selector",
            "Exact",
            "PathPrefix",
            "RegularExpression",
            "/",
            "/a",
            "(",
            "0s",
            "1h",
            "Service",
            "Secret",
            "ConfigMap",
            "Gateway",
            "ListenerSet",
            "System",
            "GET",
            "IPAddress",
            "192.0.2.1",
            "causeway",
            "RequestRedirect",
            "RequestMirror",
            "URLRewrite",
            "CORS",
            "RequestHeaderModifier",
            "ExtensionRef",
            "ReplacePrefixMatch",
            "gateway.networking.k8s.io",
            "\u{0}\n",
            "ümlaut",
        ])
        .prop_map(Value::from),
        (0..70_000_u32).prop_map(Value::from),
        prop::sample::select(vec![80, 443, 8080, 0]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ]
}

/// The fields of all kinds, filled by chance; what is of the wrong form is not read and does no harm.
fn field() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "gatewayClassName",
        "listeners",
        "parentRefs",
        "parentRef",
        "hostnames",
        "hostname",
        "rules",
        "matches",
        "filters",
        "backendRefs",
        "name",
        "namespace",
        "kind",
        "group",
        "port",
        "protocol",
        "tls",
        "mode",
        "type",
        "certificateRefs",
        "allowedRoutes",
        "namespaces",
        "from",
        "kinds",
        "sectionName",
        "path",
        "value",
        "headers",
        "method",
        "service",
        "weight",
        "timeouts",
        "request",
        "retry",
        "attempts",
        "requestRedirect",
        "urlRewrite",
        "requestMirror",
        "backendRef",
        "percent",
        "cors",
        "allowOrigins",
        "allowMethods",
        "requestHeaderModifier",
        "set",
        "targetRefs",
        "validation",
        "caCertificateRefs",
        "wellKnownCACertificates",
        "addresses",
        "frontend",
        "default",
        "perPort",
        "backend",
        "clientCertificateRef",
        "allowedListeners",
        "infrastructure",
    ])
    .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    word().prop_recursive(6, 96, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field(), inner, 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A listener that can mostly be read.
fn listener() -> impl Strategy<Value = Value> {
    let host = prop::sample::select(vec!["", "a.test", "*.test", "*.a.test", "b.a.test"]);
    let protocol = prop::sample::select(vec!["HTTP", "HTTPS", "TLS", "TLSPASS", "TCP", "UDP", "X"]);
    let port = prop::sample::select(vec![80_u16, 443, 9000, 0]);
    let name = prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]);
    (name, host, protocol, port).prop_map(|(name, host, protocol, port)| {
        let (protocol, mode) =
            if protocol == "TLSPASS" { ("TLS", "Passthrough") } else { (protocol, "Terminate") };
        json!({
            "name": name, "hostname": host, "port": port, "protocol": protocol,
            "tls": {"mode": mode, "certificateRefs": [{"name": "cert"}]},
        })
    })
}

fn hostnames() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(
        prop::sample::select(vec!["a.test", "*.test", "*.a.test", "x.a.test", "b.a.test", "bad name"]),
        0..3,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// What nobody would write.
    #[test]
    fn no_object_panics(specs in prop::collection::vec((prop::sample::select(&KINDS[..]), value(), value()), 0..6)) {
        let objects: Vec<DynamicObject> = specs
            .iter()
            .enumerate()
            .map(|(number, (kind, spec, status))| {
                let name = if *kind == "Gateway" { "gw".to_owned() } else { format!("x{number}") };
                serde_json::from_value(json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
                    "metadata": {"name": name, "namespace": "infra"}, "spec": spec, "status": status,
                })).unwrap()
            })
            .collect();
        let base = Scene::new([gateway(HTTP)]);
        let mut all: Vec<DynamicObject> =
            base.objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect();
        all.extend(objects);
        let (world, _) = World::read(&all);
        let found = picture(&world, Timestamp::UNIX_EPOCH);
        for gateway in found.gateways.values() {
            prop_assert_eq!(gateway.plan.validate(), []);
        }
    }

    /// What somebody might write: every plan can run, and a second look finds nothing to write.
    #[test]
    fn plans_run_and_statuses_settle(
        listeners in prop::collection::vec(listener(), 0..7),
        more in prop::collection::vec(listener(), 0..4),
        routes in prop::collection::vec((prop::sample::select(&KINDS[2..7]), hostnames(), 2018..2026_u16), 0..8),
    ) {
        let mut gateway = gateway("[]");
        gateway["spec"]["listeners"] = json!(listeners);
        gateway["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
        let mut set = object("ListenerSet", "infra", "set", "{parentRef: {name: gw}}");
        set["spec"]["listeners"] = json!(more);
        let mut objects = vec![gateway, set, json!(CERT.clone())];
        for (number, (kind, hostnames, year)) in routes.iter().enumerate() {
            let mut route = object(kind, "infra", &format!("r{number}"),
                "{parentRefs: [{name: gw}, {kind: ListenerSet, name: set}], rules: [{backendRefs: [{name: web, port: 8080}]}]}");
            route["spec"]["hostnames"] = json!(hostnames);
            objects.push(aged(*year, route));
        }
        let first = Scene::new(objects.clone()).picture();
        for object in &mut objects {
            let at = ObjectRef::new("infra", object["metadata"]["name"].as_str().unwrap());
            let status = match object["kind"].as_str().unwrap() {
                "Gateway" => &first.gateways[&at].status,
                "ListenerSet" => &first.listener_sets[&at],
                "Secret" => continue,
                kind => {
                    let kind = RouteKind::ALL.into_iter().find(|known| known.as_str() == kind).unwrap();
                    &first.routes[&(kind, at)]
                }
            };
            object["status"] = status.value.clone();
        }
        let second = Scene::new(objects).picture();
        prop_assert_eq!(first.plan(), second.plan());
        prop_assert!(second.gateways.values().all(|gateway| !gateway.status.changed));
        prop_assert!(second.routes.values().chain(second.listener_sets.values()).all(|status| !status.changed));
    }
}

static CERT: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| secret("infra", "cert"));
