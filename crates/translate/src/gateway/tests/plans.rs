//! What ports do: isolation, misdirected requests, TLS that ends and TLS that passes, connections and datagrams.

use causeway_ir::{Refusal, Tls};

use super::*;

fn tls_port(plan: &Plan, port: u16) -> &Tls {
    match &plan.listeners.iter().find(|listener| listener.bind.port() == port).unwrap().protocol {
        Protocol::Tls(tls) => tls,
        other => panic!("{other:?}"),
    }
}

/// The route of a server name on a port.
fn by_name<'a>(tls: &'a Tls, name: &str) -> &'a Action {
    let has = |route: &&causeway_ir::TlsRoute| route.server_names.iter().any(|n| n.to_string() == name);
    &tls.routes.iter().find(has).unwrap_or_else(|| panic!("{name}: {tls:?}")).action
}

fn texts(patterns: &[causeway_ir::Pattern]) -> Vec<String> {
    patterns.iter().map(ToString::to_string).collect()
}

fn clusters(action: &Action) -> Vec<&str> {
    let action = match action {
        Action::Terminate(terminate) => match &terminate.then {
            Then::Tcp(route) => &route.action,
            Then::Http(http) => panic!("{http:?}"),
        },
        other => other,
    };
    action.targets().iter().map(|target| target.cluster.as_str()).collect()
}

#[test]
fn each_host_of_a_port_is_a_site_of_its_own() {
    let listeners = "[
        {name: empty, port: 80, protocol: HTTP},
        {name: wide, port: 80, protocol: HTTP, hostname: '*.example.com'},
        {name: narrow, port: 80, protocol: HTTP, hostname: '*.foo.example.com'},
        {name: exact, port: 80, protocol: HTTP, hostname: abc.foo.example.com},
    ]";
    let of = |name: &str| {
        let spec = format!(
            "{{parentRefs: [{{name: gw, sectionName: {name}}}], rules: [{{backendRefs: [{{name: web, port: 8080}}]}}]}}"
        );
        object("HTTPRoute", "infra", name, &spec)
    };
    let picture =
        Scene::new([gateway(listeners), of("empty"), of("wide"), of("narrow"), of("exact")]).picture();
    let http = picture.requests();
    assert_eq!(http.routes[0].name, "HTTPRoute/infra/empty#0@empty");
    let sites: Vec<_> = http
        .sites
        .iter()
        .map(|site| (site.name.as_str(), texts(&site.hosts).join(""), site.routes[0].name.as_str()))
        .collect();
    assert_eq!(
        sites,
        [
            ("wide", "*.example.com".to_owned(), "HTTPRoute/infra/wide#0@wide"),
            ("narrow", "*.foo.example.com".to_owned(), "HTTPRoute/infra/narrow#0@narrow"),
            ("exact", "abc.foo.example.com".to_owned(), "HTTPRoute/infra/exact#0@exact"),
        ]
    );
}

#[test]
fn a_routes_own_hostnames_rank_and_not_what_they_share_with_the_listener() {
    let listener = "[{name: http, port: 80, protocol: HTTP, hostname: very.specific.com}]";
    let wide = aged(2020, http_route("wide", "hostnames: ['*.specific.com', other.com]"));
    let exact = aged(2024, http_route("exact", "hostnames: [very.specific.com]"));
    let picture = Scene::new([gateway(listener), wide, exact]).picture();
    let site = &picture.requests().sites[0];
    let hosts: Vec<_> = site.routes.iter().map(|route| texts(&route.hosts)).collect();
    assert_eq!(hosts, [vec!["*.specific.com".to_owned()], vec!["very.specific.com".to_owned()]]);
}

fn https_gateway() -> Vec<Value> {
    let tls = "tls: {certificateRefs: [{name: cert}]}";
    let listeners = format!(
        "[
        {{name: https, port: 443, protocol: HTTPS, {tls}}},
        {{name: second, port: 443, protocol: HTTPS, hostname: second.org, {tls}}},
        {{name: wild, port: 443, protocol: HTTPS, hostname: '*.wild.org', {tls}}},
        {{name: fourth, port: 443, protocol: HTTPS, hostname: fourth.wild.org, {tls}}},
    ]"
    );
    vec![gateway(&listeners), secret("infra", "cert"), http_route("web", "")]
}

#[test]
fn who_asks_for_another_listeners_host_is_told_421() {
    let picture = Scene::new(https_gateway()).picture();
    let tls = tls_port(picture.plan(), 443);
    assert_eq!(tls.unknown_server_name, tls.no_server_name);
    let rest = inside(&tls.unknown_server_name);
    assert_eq!((rest.routes.len(), rest.sites.len()), (1, 0));
    assert_eq!(texts(&rest.misdirected), ["second.org", "*.wild.org", "fourth.wild.org"]);
    for (name, others) in [
        ("second.org", ["*.wild.org", "fourth.wild.org"]),
        ("*.wild.org", ["second.org", "fourth.wild.org"]),
        ("fourth.wild.org", ["second.org", "*.wild.org"]),
    ] {
        let own = inside(by_name(tls, name));
        assert_eq!(texts(&own.sites[0].hosts), [name]);
        assert_eq!(texts(&own.misdirected), others);
        // Every other host belongs to the listener without one.
        assert_eq!(own.routes.iter().map(answer).collect::<Vec<_>>(), [421], "{name}");
    }
    assert_eq!(
        picture.gateway().certificates.keys().map(causeway_ir::Name::as_str).collect::<Vec<_>>(),
        ["infra/cert"]
    );
}

#[test]
fn https_listeners_that_share_hosts_say_so() {
    let overlapping = |objects: Vec<Value>| {
        let picture = Scene::new(objects).picture();
        ["https", "second", "wild", "fourth"].map(|name| {
            condition(picture.listener(name), "OverlappingTLSConfig") == ("True", "OverlappingHostnames")
        })
    };
    let mut objects = https_gateway();
    assert_eq!(overlapping(objects.clone()), [true; 4]);
    objects[0]["spec"]["listeners"][0]["hostname"] = json!("first.org");
    assert_eq!(overlapping(objects.clone()), [false, false, true, true]);
    objects[0]["spec"]["listeners"][3]["port"] = json!(444);
    assert_eq!(overlapping(objects), [false; 4]);
}

#[test]
fn a_certificate_that_clients_refuse_is_served_and_told() {
    for (years, said) in [
        ((2020, 4096), ("", "")),
        ((2020, 2025), ("True", "Expired")),
        ((3000, 4096), ("True", "NotYetValid")),
    ] {
        let mut objects = https_gateway();
        objects[1] = secret_of("infra", "cert", years);
        let picture = Scene::new(objects).picture();
        assert_eq!(condition(picture.listener("second"), "causeway.dev/CertificateAgeing"), said);
        assert_eq!(condition(picture.listener("second"), "Programmed"), ("True", "Programmed"));
    }
}

#[test]
fn without_a_listener_for_every_host_strangers_are_refused_and_unknown_hosts_not_found() {
    let mut objects = https_gateway();
    objects[0]["spec"]["listeners"].as_array_mut().unwrap().remove(0);
    let picture = Scene::new(objects).picture();
    let tls = tls_port(picture.plan(), 443);
    assert_eq!(tls.unknown_server_name, Action::Refuse(Refusal::Alert));
    assert!(inside(by_name(tls, "second.org")).routes.is_empty());
}

#[test]
fn a_host_without_a_good_certificate_is_left_to_nobody_else() {
    let mut objects = https_gateway();
    objects[0]["spec"]["listeners"][3]["tls"]["certificateRefs"][0]["name"] = json!("missing");
    let picture = Scene::new(objects).picture();
    let tls = tls_port(picture.plan(), 443);
    assert_eq!(*by_name(tls, "fourth.wild.org"), Action::Refuse(Refusal::Alert));
    assert_eq!(condition(picture.listener("fourth"), "Programmed"), ("False", "Invalid"));
    assert_eq!(condition(picture.listener("wild"), "Programmed"), ("True", "Programmed"));
}

fn tls_route(name: &str, parent: &str, hostnames: &str, backend: &str) -> Value {
    let spec = format!(
        "{{parentRefs: [{{name: gw{parent}}}], hostnames: {hostnames}, rules: [{{backendRefs: [{{name: {backend}, port: 8080}}]}}]}}"
    );
    object("TLSRoute", "infra", name, &spec)
}

#[test]
fn passthrough_termination_and_https_share_a_port() {
    let listeners = "[
        {name: end, port: 443, protocol: TLS, hostname: end.test, tls: {mode: Terminate, certificateRefs: [{name: cert}]}},
        {name: pass, port: 443, protocol: TLS, hostname: pass.test, tls: {mode: Passthrough}},
        {name: https, port: 443, protocol: HTTPS, hostname: web.test, tls: {certificateRefs: [{name: cert}]}},
    ]";
    let picture = Scene::new([
        gateway(listeners),
        secret("infra", "cert"),
        tls_route("end", "", "[end.test]", "web"),
        tls_route("pass", "", "[pass.test]", "api"),
        http_route("web", ""),
    ])
    .picture();
    let tls = tls_port(picture.plan(), 443);
    assert_eq!(clusters(by_name(tls, "end.test")), ["infra/web:8080"]);
    assert!(matches!(by_name(tls, "end.test"), Action::Terminate(_)));
    assert!(matches!(by_name(tls, "pass.test"), Action::Forward(_)));
    assert_eq!(clusters(by_name(tls, "pass.test")), ["infra/api:8080"]);
    assert_eq!(texts(&inside(by_name(tls, "web.test")).misdirected), ["end.test", "pass.test"]);
    for name in ["end", "pass", "https"] {
        assert_eq!(picture.listener(name)["attachedRoutes"], 1, "{name}");
        assert_eq!(condition(picture.listener(name), "Accepted"), ("True", "Accepted"), "{name}");
    }
}

#[test]
fn server_names_are_those_that_route_and_listener_share() {
    for (host, hostnames, names) in [
        ("abc.example.com", "['*.example.com']", vec!["abc.example.com"]),
        ("'*.example.com'", "[abc.example.com, '*.com']", vec!["abc.example.com", "*.example.com"]),
        ("'*.com'", "[abc.example.com, '*.example.com']", vec!["abc.example.com", "*.example.com", "*.com"]),
        ("''", "[abc.example.com]", vec!["abc.example.com"]),
    ] {
        let listener = format!(
            "[{{name: tls, port: 443, protocol: TLS, hostname: {host}, tls: {{mode: Passthrough}}}}]"
        );
        let picture = Scene::new([gateway(&listener), tls_route("pass", "", hostnames, "web")]).picture();
        let tls = tls_port(picture.plan(), 443);
        let mut found: Vec<_> = tls.routes.iter().flat_map(|route| texts(&route.server_names)).collect();
        found.sort();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(found, names, "{host} {hostnames}");
    }
}

#[test]
fn names_that_nobody_routes_are_refused_and_not_left_to_a_wider_listener() {
    let listeners = "[
        {name: wide, port: 443, protocol: TLS, hostname: '*.com', tls: {mode: Passthrough}},
        {name: narrow, port: 443, protocol: TLS, hostname: '*.example.com', tls: {mode: Passthrough}},
    ]";
    let picture = Scene::new([
        gateway(listeners),
        tls_route("wide", ", sectionName: wide", "['*.com', x.example.com]", "web"),
        tls_route("narrow", ", sectionName: narrow", "[abc.example.com]", "api"),
    ])
    .picture();
    let tls = tls_port(picture.plan(), 443);
    assert_eq!(clusters(by_name(tls, "*.com")), ["infra/web:8080"]);
    assert_eq!(clusters(by_name(tls, "abc.example.com")), ["infra/api:8080"]);
    assert_eq!(*by_name(tls, "*.example.com"), Action::Refuse(Refusal::Close));
    assert_eq!(tls.unknown_server_name, Action::Refuse(Refusal::Close));
    assert!(tls.routes.iter().all(|route| texts(&route.server_names) != ["x.example.com"]));
}

#[test]
fn of_routes_for_one_server_name_the_more_specific_has_it_and_then_the_older() {
    let listener =
        "[{name: tls, port: 443, protocol: TLS, hostname: abc.example.com, tls: {mode: Passthrough}}]";
    let picture = Scene::new([
        gateway(listener),
        aged(2020, tls_route("wide", "", "['*.example.com']", "api")),
        aged(2021, tls_route("exact", "", "[abc.example.com]", "web")),
        aged(2022, tls_route("late", "", "[abc.example.com]", "api")),
    ])
    .picture();
    assert_eq!(clusters(by_name(tls_port(picture.plan(), 443), "abc.example.com")), ["infra/web:8080"]);
    assert_eq!(picture.listener("tls")["attachedRoutes"], 3);
    let told = |name: &str| {
        condition(picture.parent(RouteKind::Tls, "infra", name, 0), "causeway.dev/Overshadowed").0
    };
    assert_eq!((told("wide"), told("exact"), told("late")), ("True", "", "True"));
}

#[test]
fn a_policy_seals_what_was_opened_and_not_what_passes() {
    let listeners = "[
        {name: end, port: 443, protocol: TLS, hostname: end.test, tls: {certificateRefs: [{name: cert}]}},
        {name: pass, port: 443, protocol: TLS, hostname: pass.test, tls: {mode: Passthrough}},
    ]";
    let policy = object(
        "BackendTLSPolicy",
        "infra",
        "tls",
        "{targetRefs: [{group: '', kind: Service, name: web}], validation: {hostname: a.test, wellKnownCACertificates: System}}",
    );
    let picture = Scene::new([
        gateway(listeners),
        secret("infra", "cert"),
        policy,
        tls_route("both", "", "[end.test, pass.test]", "web"),
    ])
    .picture();
    let tls = tls_port(picture.plan(), 443);
    assert_eq!(clusters(by_name(tls, "end.test")), ["infra/web:8080 tcp tls"]);
    assert_eq!(clusters(by_name(tls, "pass.test")), ["infra/web:8080"]);
    let ancestors = &picture.policies[&ObjectRef::new("infra", "tls")].value["ancestors"];
    assert_eq!(condition(&ancestors[0], "Accepted"), ("True", "Accepted"));
}

fn connection(kind: &str, name: &str, backends: &str) -> Value {
    let spec = format!("{{parentRefs: [{{name: gw}}], rules: [{{backendRefs: {backends}}}]}}");
    object(kind, "infra", name, &spec)
}

fn plain(plan: &Plan) -> Vec<(&str, String, &Action)> {
    plan.listeners
        .iter()
        .filter_map(|listener| match &listener.protocol {
            Protocol::Tcp(route) | Protocol::Udp(route) => {
                Some((listener.name.as_str(), route.name.to_string(), &route.action))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn connections_and_datagrams_go_by_weight_to_the_oldest_route_on_every_listener() {
    let listeners = "[
        {name: one, port: 9000, protocol: TCP}, {name: two, port: 9001, protocol: TCP}, {name: udp, port: 9000, protocol: UDP},
    ]";
    let dns = service("infra", "dns", "[{name: dns, port: 53, protocol: UDP}]", "10.0.0.7");
    let weighted = "[{name: web, port: 8080, weight: 3}, {name: api, port: 8080, weight: 1}]";
    let picture = Scene::new([
        gateway(listeners),
        aged(2020, connection("TCPRoute", "older", weighted)),
        aged(2024, connection("TCPRoute", "newer", "[{name: api, port: 8080}]")),
        connection("UDPRoute", "dns", "[{name: dns, port: 53}]"),
    ])
    .and(dns)
    .picture();
    let found = plain(picture.plan());
    let names: Vec<_> = found.iter().map(|(listener, route, _)| (*listener, route.as_str())).collect();
    assert_eq!(
        names,
        [
            ("tcp/9000", "TCPRoute/infra/older@one"),
            ("tcp/9001", "TCPRoute/infra/older@two"),
            ("udp/9000", "UDPRoute/infra/dns@udp"),
        ]
    );
    let weights: Vec<_> = found[0].2.targets().iter().map(|t| (t.cluster.as_str(), t.weight)).collect();
    assert_eq!(weights, [("infra/web:8080", 3), ("infra/api:8080", 1)]);
    assert_eq!(clusters(found[2].2), ["infra/dns:53 udp"]);
    let udp = picture.plan().clusters.iter().find(|cluster| cluster.name == "infra/dns:53 udp").unwrap();
    assert_eq!((udp.idle_timeout.get().as_secs(), udp.endpoints.len()), (60, 1));
    assert_eq!(
        (&picture.listener("one")["attachedRoutes"], &picture.listener("udp")["attachedRoutes"]),
        (&json!(2), &json!(1))
    );
    for (name, told) in [("older", ""), ("newer", "True")] {
        let entry = picture.parent(RouteKind::Tcp, "infra", name, 0);
        assert_eq!(condition(entry, "Accepted"), ("True", "Accepted"), "{name}");
        assert_eq!(condition(entry, "causeway.dev/Overshadowed").0, told, "{name}");
    }
}

#[test]
fn connections_to_nowhere_are_closed_and_told() {
    let listeners = "[{name: tcp, port: 9000, protocol: TCP}]";
    for (backends, reason) in [
        ("[{name: missing, port: 80}]", "BackendNotFound"),
        ("[{name: web, port: 81}]", "BackendNotFound"),
        ("[{name: web, namespace: apps, port: 8080}]", "RefNotPermitted"),
        ("[{kind: Bucket, name: b}]", "InvalidKind"),
    ] {
        let picture = Scene::new([gateway(listeners), connection("TCPRoute", "web", backends)]).picture();
        let entry = picture.parent(RouteKind::Tcp, "infra", "web", 0);
        assert_eq!(condition(entry, "ResolvedRefs"), ("False", reason), "{backends}");
        assert_eq!(condition(entry, "Accepted"), ("True", "Accepted"), "{backends}");
        assert!(picture.plan().clusters.iter().all(|cluster| cluster.endpoints.is_empty()));
    }
    let none = connection("TCPRoute", "web", "[{name: web, port: 8080, weight: 0}]");
    let picture = Scene::new([gateway(listeners), none]).picture();
    assert_eq!(*plain(picture.plan())[0].2, Action::Refuse(Refusal::Close));
}

#[test]
fn a_second_rule_of_connections_is_dropped_and_told() {
    let spec = "{parentRefs: [{name: gw}], rules: [{backendRefs: [{name: web, port: 8080}]}, {name: more, backendRefs: [{name: api, port: 8080}]}]}";
    let listeners = "[{name: tcp, port: 9000, protocol: TCP}]";
    let picture = Scene::new([gateway(listeners), object("TCPRoute", "infra", "web", spec)]).picture();
    let entry = picture.parent(RouteKind::Tcp, "infra", "web", 0);
    assert_eq!(condition(entry, "PartiallyInvalid"), ("True", "UnsupportedValue"));
    assert!(message(entry, "PartiallyInvalid").starts_with("Dropped Rule 1 more"));
    assert_eq!(clusters(plain(picture.plan())[0].2), ["infra/web:8080"]);
}

#[test]
fn long_names_fit_a_plan() {
    let long = "n".repeat(253);
    let mut gateway = gateway(HTTP);
    gateway["metadata"]["name"] = json!(long);
    let spec =
        format!("{{parentRefs: [{{name: {long}}}], rules: [{{backendRefs: [{{name: web, port: 8080}}]}}]}}");
    let picture = Scene::new([gateway, object("HTTPRoute", "infra", &long, &spec)]).picture();
    let made = &picture.gateways[&ObjectRef::new("infra", &long)];
    assert_eq!(requests(&made.plan, 80).routes.len(), 1);
}

#[test]
fn the_plan_of_a_whole_gateway() {
    let mut objects = https_gateway();
    objects[0]["spec"]["listeners"]
        .as_array_mut()
        .unwrap()
        .push(yaml("{name: http, port: 80, protocol: HTTP}"));
    objects[2] = http_route(
        "web",
        "hostnames: [second.org, a.wild.org], rules: [
            {matches: [{path: {value: /api}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], backendRefs: [{name: api, port: 8080, weight: 9}, {name: missing, port: 1}]},
            {filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]},
        ]",
    );
    insta::assert_yaml_snapshot!(Scene::new(objects).picture().plan());
}
