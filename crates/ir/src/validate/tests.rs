use crate::{Plan, Problem};

const GOOD: &str = r#"
listeners:
- name: https
  bind: 0.0.0.0:443
  protocol:
    tls:
      routes:
      - {name: api, serverNames: [api.test], action: {forward: api}}
      - {name: apps, serverNames: ["*.apps.test"], action: {forward: apps}}
- name: ssh
  bind: 0.0.0.0:22
  protocol: {tcp: {name: all, action: {forward: api}}}
clusters:
- {name: api, endpoints: [{address: "10.0.0.1:1"}]}
- {name: apps, endpoints: [{address: "[::1]:1"}]}
"#;

/// The problems of the good plan after an edit of its text.
fn problems(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from), "{from}");
    let good: Plan = serde_saphyr::from_str(GOOD).unwrap();
    let plan: Plan = serde_saphyr::from_str(&GOOD.replacen(from, to, 1)).unwrap();
    assert_eq!(plan.validate_after(&good), plan.validate(), "{to}");
    plan.validate().iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_plan_has_no_problems() {
    assert_eq!(problems("", ""), Vec::<String>::new());
}

#[test]
fn names_the_field_and_both_sides_of_a_clash() {
    const TLS: &str = "listeners[0].protocol.tls";
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "\"*.apps.test\"",
            "API.test.",
            "routes[1].serverNames[0]",
            "already at listeners[0].protocol.tls.routes[0].serverNames[0]",
        ),
        ("name: apps, serverNames", "name: api, serverNames", "routes[1].name", "already that of"),
        ("name: ssh", "name: https", "listeners[1].name", "listeners[0].name"),
        ("0.0.0.0:22", "127.0.0.1:443", "listeners[1].bind", "clashes with 0.0.0.0:443 of listeners[0]"),
        ("forward: apps", "forward: nope", "routes[1].action.forward", "there is no cluster `nope`"),
        ("[api.test]", "[]", "routes[0].serverNames", "needs a name"),
        ("name: apps, endpoints", "name: api, endpoints", "clusters[1].name", "clusters[0].name"),
        (
            "      routes:\n",
            "      plaintext: {forward: x}\n      routes:\n",
            "plaintext.forward",
            "no cluster `x`",
        ),
        (
            "{address: \"10.0.0.1:1\"}",
            "{address: \"10.0.0.1:1\"}, {address: \"10.0.0.1:1\"}",
            "clusters[0].endpoints[1].address",
            "already clusters[0].endpoints[0].address",
        ),
        ("\"10.0.0.1:1\"", "\"place:web\"", "clusters[0].endpoints[0].address", "behind a link"),
        (
            "name: apps, endpoints",
            "name: apps, transport: {link: l}, endpoints",
            "clusters[1].transport.link",
            "no link `l`",
        ),
        (
            "tcp: {name: all, action: {forward: api}}",
            "tcp: {name: all, action: {refuse: alert}}",
            "listeners[1].protocol.tcp.action",
            "refuse: close",
        ),
        (
            "name: all, action: {forward: api}",
            "name: all, action: {terminate: {certificates: [a], then: {http: {}}}}",
            "listeners[1].protocol.tcp.action",
            "ClientHello",
        ),
        (
            "action: {forward: apps}",
            "action: {terminate: {certificates: [], then: {http: {routes: [{name: a, action: {forward: x}}]}}}}",
            "routes[1].action.terminate.then.http.routes[0].action.forward",
            "no cluster `x`",
        ),
        (
            "action: {forward: apps}",
            "action: {terminate: {certificates: [], then: {http: {}}}}",
            "routes[1].action.terminate.certificates",
            "at least one",
        ),
    ];
    for (from, to, path, message) in cases {
        let found = problems(from, to);
        let right = |p: &String| {
            (p.starts_with(&format!("{path}: ")) || p.starts_with(&format!("{TLS}.{path}: ")))
                && p.contains(message)
        };
        assert!(found.iter().any(right), "{to}: {found:#?}");
    }
}

const SITES: &str = r#"
listeners:
- name: web
  bind: 0.0.0.0:80
  protocol:
    http:
      routes: [{name: rest, action: {forward: c}}]
      sites:
      - {name: a, hosts: [a.test], routes: [{name: one, action: {forward: c}}]}
      - {name: b, hosts: ["*.b.test"], routes: [{name: two, action: {forward: [{cluster: c, filters: [{rewrite: {host: x}}]}]}}]}
      misdirected: [m.test]
- name: tls
  bind: 0.0.0.0:443
  protocol:
    tls:
      routes:
      - name: t
        serverNames: [t.test]
        action: {terminate: {certificates: [t], then: {http: {routes: [{name: in, action: {forward: d}}]}}}}
clusters: [{name: c}, {name: d, transport: {tls: {serverName: d.test, subjectNames: [{uri: "spiffe://d"}]}}}]
pages: [{name: p, body: sorry}]
"#;

#[test]
fn hosts_and_routes_of_sites_stand_once_and_lead_somewhere() {
    let good: Plan = serde_saphyr::from_str(SITES).unwrap();
    assert_eq!(good.validate(), []);
    let http = "listeners[0].protocol.http";
    for (from, to, path, message) in [
        (
            "[a.test]",
            "[a.test, '*.b.test']",
            "sites[1].hosts[0]",
            "already at listeners[0].protocol.http.sites[0].hosts[1]",
        ),
        ("[m.test]", "[A.test]", "misdirected[0]", "sites[0].hosts[0]"),
        ("[a.test]", "[]", "sites[0].hosts", "needs a host"),
        ("name: b, hosts", "name: a, hosts", "sites[1].name", "sites[0].name"),
        (
            "name: two",
            "name: rest",
            "sites[1].routes[0].name",
            "already that of listeners[0].protocol.http.routes[0].name",
        ),
        (
            "one, action: {forward: c}",
            "one, action: {forward: x}",
            "sites[0].routes[0].action.forward",
            "no cluster `x`",
        ),
        (
            "{rewrite: {host: x}}",
            "{mirror: {cluster: c}}",
            "sites[1].routes[0].action.forward[0].filters[0].mirror",
            "filters of the route",
        ),
        (
            "forward: d",
            "forward: x",
            "listeners[1].protocol.tls.routes[0].action.terminate.then.http.routes[0].action.forward",
            "no cluster `x`",
        ),
        (
            "serverName: d.test",
            "serverName: '*.test'",
            "clusters[1].transport.tls.serverName",
            "not a server name",
        ),
        ("spiffe://d", "d", "clusters[1].transport.tls.subjectNames[0].uri", "not a URI"),
        (
            "{rewrite: {host: x}}",
            "{rewrite: {path: {regex: {pattern: '/(a)', with: '/$1b'}}}}",
            "sites[1].routes[0].action.forward[0].filters[0].rewrite.path.regex.with",
            "no group `1b`",
        ),
        (
            "{name: one,",
            "{name: one, policies: {errorPages: [{statuses: [404, 200], page: p}]},",
            "sites[0].routes[0].policies.errorPages[0].statuses[1]",
            "400 to 599",
        ),
        (
            "{name: one,",
            "{name: one, policies: {persistence: {lifetime: permanent}},",
            "sites[0].routes[0].policies.persistence.lifetime",
            "absoluteTimeout",
        ),
        (
            "misdirected: [m.test]",
            "errorPages: [{statuses: [503, 503], page: p}]",
            "errorPages[0].statuses[1]",
            "already",
        ),
        (
            "misdirected: [m.test]",
            "errorPages: [{statuses: [503], page: q}]",
            "errorPages[0].page",
            "no page `q`",
        ),
        (
            "{name: in,",
            "{name: in, policies: {errorPages: [{statuses: [404], page: q}]},",
            "listeners[1].protocol.tls.routes[0].action.terminate.then.http.routes[0].policies.errorPages[0].page",
            "add it to pages",
        ),
        (
            "[{name: p, body",
            "[{name: p, body: a}, {name: p, body",
            "pages[1].name",
            "already that of pages[0].name",
        ),
        (
            "{name: d, tra",
            "{name: e, tra",
            "listeners[1].protocol.tls.routes[0].action.terminate.then.http.routes[0].action.forward",
            "no cluster `d`",
        ),
    ] {
        assert!(SITES.contains(from), "{from}");
        let plan: Plan = serde_saphyr::from_str(&SITES.replacen(from, to, 1)).unwrap();
        let problems = plan.validate();
        assert_eq!(plan.validate_after(&good), problems, "{to}");
        let right = |p: &Problem| {
            (p.path == path || p.path == format!("{http}.{path}")) && p.message.contains(message)
        };
        assert!(problems.iter().any(right), "{to}: {problems:#?}");
    }
    // What is fine after a small change is fine as a whole.
    for (from, to) in [
        ("{name: one,", "{name: other, hosts: [x.a.test],"),
        ("{name: in,", "{name: in, timeouts: {request: 1s},"),
        ("name: rest, action: {forward: c}", "name: rest, action: {forward: d}"),
        ("{name: one,", "{name: one, policies: {errorPages: [{statuses: [404], page: p}]},"),
        ("body: sorry", "body: gone"),
    ] {
        let plan: Plan = serde_saphyr::from_str(&SITES.replacen(from, to, 1)).unwrap();
        assert_eq!(plan.validate(), [], "{to}");
        assert!(super::small_change::is_fine(&good, &plan), "{to}");
    }
}

#[test]
fn the_same_port_in_both_families_and_protocols_is_fine() {
    assert_eq!(problems("0.0.0.0:22", "\"[::]:443\""), Vec::<String>::new());
    assert_eq!(
        problems("  bind: 0.0.0.0:22\n  protocol: {tcp", "  bind: 0.0.0.0:443\n  protocol: {udp"),
        Vec::<String>::new()
    );
}

#[test]
fn datagrams_carry_no_proxy_header_and_go_through_no_link() {
    for field in ["sendProxyProtocol: v2", "transport: {link: x}"] {
        let text = GOOD
            .replace("protocol: {tcp", "protocol: {udp")
            .replace("{name: api, endpoints", &format!("{{name: api, {field}, endpoints"));
        let problems = serde_saphyr::from_str::<Plan>(&text).unwrap().validate();
        let is_it = |problem: &Problem| problem.path == "listeners[1].protocol.udp.action.forward";
        assert!(problems.iter().any(is_it), "{problems:?}");
    }
}

#[test]
fn warns_of_wildcards_within_wildcards() {
    let text = GOOD.replace("[api.test]", "[\"*.test\"]");
    let plan: Plan = serde_saphyr::from_str(&text).unwrap();
    assert!(plan.validate().is_empty());
    let warnings = plan.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].path, "listeners[0].protocol.tls.routes[1].serverNames[0]");
    assert!(warnings[0].message.contains("`*.apps.test` lies within `*.test`"), "{warnings:?}");
    assert!(warnings[0].message.contains("cluster `apps`, not cluster `api`"), "{warnings:?}");
}

#[test]
fn warns_of_networks_that_are_written_as_an_address() {
    let text = "listeners: [{name: a, bind: '127.0.0.1:1', allowedSources: [10.1.2.3/8, 10.0.0.0/8, 10.1.2.3/32], \
                acceptProxyProtocol: {from: ['fd00::1/8']}, protocol: {tcp: {name: r, action: {refuse: close}}}}]";
    let plan: Plan = serde_saphyr::from_str(text).unwrap();
    let warnings: Vec<_> = plan.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "listeners[0].allowedSources[0]: 10.1.2.3/8 is all of 10.0.0.0/8: write that, or 10.1.2.3/32 for the one \
             address",
            "listeners[0].acceptProxyProtocol.from[0]: fd00::1/8 is all of fd00::/8: write that, or fd00::1/128 for \
             the one address"
        ]
    );
}

#[test]
fn warns_of_rules_for_clients_that_anybody_can_pretend_to_be() {
    let warnings = |more: &str| {
        let text = GOOD.replacen("  protocol:", &format!("  {more}\n  protocol:"), 1);
        let plan: Plan = serde_saphyr::from_str(&text).unwrap();
        plan.warnings().into_iter().map(|warning| warning.path).collect::<Vec<_>>()
    };
    let believed = "allowedSources: [10.0.0.0/8]\n  acceptProxyProtocol: {}";
    assert_eq!(warnings(believed), ["listeners[0].acceptProxyProtocol"]);
    assert_eq!(warnings(&believed.replace("{}", "{from: [10.9.0.0/16]}")), Vec::<String>::new());
    assert_eq!(warnings("acceptProxyProtocol: {}"), Vec::<String>::new());
}

#[test]
fn the_examples_of_the_documentation_are_good_plans() {
    let page = include_str!("../../../../docs/engine.md");
    for example in page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let plan: Plan = serde_saphyr::from_str(example).unwrap();
        assert_eq!(plan.validate(), []);
        assert_eq!(plan.warnings(), []);
    }
}
