use crate::Plan;

const GOOD: &str = r#"
listeners:
- name: https
  bind: 0.0.0.0:443
  sniff: tls
  routes:
  - {name: api, serverNames: [api.test], cluster: api}
  - {name: apps, serverNames: ["*.apps.test"], cluster: apps}
- name: ssh
  bind: 0.0.0.0:22
  routes: [{name: all, cluster: api}]
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
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "\"*.apps.test\"",
            "API.test.",
            "listeners[0].routes[1].serverNames[0]",
            "already at listeners[0].routes[0].serverNames[0]",
        ),
        (
            "name: apps, serverNames",
            "name: api, serverNames",
            "listeners[0].routes[1].name",
            "already that of listeners[0].routes[0].name",
        ),
        ("name: ssh", "name: https", "listeners[1].name", "listeners[0].name"),
        ("0.0.0.0:22", "127.0.0.1:443", "listeners[1].bind", "clashes with 0.0.0.0:443 of listeners[0]"),
        ("0.0.0.0:22", "example.test:22", "listeners[1].bind", "not an address and port"),
        ("cluster: apps", "cluster: nope", "listeners[0].routes[1].cluster", "there is no cluster `nope`"),
        ("  sniff: tls\n", "", "listeners[0].routes[0].serverNames", "sniff: tls"),
        ("serverNames: [api.test], ", "", "listeners[0].routes[0].serverNames", "needs a name"),
        (
            "serverNames: [api.test]",
            "serverNames: [a*.test]",
            "listeners[0].routes[0].serverNames[0]",
            "at the front only",
        ),
        ("10.0.0.1:1", "backend:1", "clusters[0].endpoints[0].address", "not an address and port"),
        ("10.0.0.1:1", "10.0.0.1:0", "clusters[0].endpoints[0].address", "port 0"),
        ("\"10.0.0.1:1\"", "\"10.0.0.1:1\", weight: 0", "clusters[0].endpoints[0].weight", "at least 1"),
        ("name: apps, endpoints", "name: api, endpoints", "clusters[1].name", "clusters[0].name"),
        ("  routes: [{name: all, cluster: api}]", "  routes: []", "listeners[1].routes", "a route is needed"),
        ("clusters:\n", "limits: {connections: 0}\nclusters:\n", "limits.connections", "leave the field out"),
        (
            "  bind: 0.0.0.0:443\n",
            "  bind: 0.0.0.0:443\n  plaintext: {cluster: x}\n",
            "listeners[0].plaintext.cluster",
            "no cluster `x`",
        ),
        (
            "  bind: 0.0.0.0:443\n",
            "  bind: 0.0.0.0:443\n  protocol: UDP\n",
            "listeners[0].sniff",
            "not sniffed",
        ),
    ];
    for (from, to, path, message) in cases {
        let found = problems(from, to);
        assert!(
            found.iter().any(|p| p.starts_with(&format!("{path}: ")) && p.contains(message)),
            "{to}: {found:#?}"
        );
    }
}

#[test]
fn the_same_port_in_both_families_and_protocols_is_fine() {
    assert_eq!(problems("0.0.0.0:22", "\"[::]:443\""), Vec::<String>::new());
    assert_eq!(problems("  bind: 0.0.0.0:22", "  protocol: UDP\n  bind: 0.0.0.0:443"), Vec::<String>::new());
}

#[test]
fn datagrams_carry_no_proxy_header() {
    let text = GOOD
        .replace("  bind: 0.0.0.0:22", "  protocol: UDP\n  bind: 0.0.0.0:22")
        .replace("{name: api, endpoints", "{name: api, sendProxyProtocol: v2, endpoints");
    let problems = serde_saphyr::from_str::<Plan>(&text).unwrap().validate();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].path, "listeners[1].routes[0].cluster");
}

#[test]
fn warns_of_wildcards_within_wildcards() {
    let text = GOOD.replace("[api.test]", "[\"*.test\"]");
    let plan: Plan = serde_saphyr::from_str(&text).unwrap();
    assert!(plan.validate().is_empty());
    let warnings = plan.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].path, "listeners[0].routes[1].serverNames[0]");
    assert!(warnings[0].message.contains("`*.apps.test` lies within `*.test`"), "{warnings:?}");
}

#[test]
fn the_example_of_the_documentation_is_a_good_plan() {
    let page = include_str!("../../../../docs/engine.md");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let plan: Plan = serde_saphyr::from_str(example).unwrap();
    assert_eq!(plan.validate(), []);
    assert_eq!(plan.warnings(), []);
}
