use causeway_api::DNSServer;
use serde_json::{Value, json};

use super::*;

fn server(fields: &Value) -> DNSServer {
    let mut spec = json!({
        "networkConfig": {
            "serverIP": "192.168.100.3", "proxyIP": "192.168.100.4", "secondaryNetworkCIDR": "192.168.100.0/24",
        },
        "hostedClusterDomain": "lab.example.com",
        "staticEntries": [
            { "hostname": "api.lab.example.com", "ip": "192.168.100.4" },
            { "hostname": "*.apps.lab.example.com", "ip": "192.168.100.4" },
            { "hostname": "registry.lab.example.com", "ip": "192.168.100.30" },
            { "hostname": "console.example.org", "ip": "192.168.100.4" },
        ],
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        match (value, &mut spec[key]) {
            (Value::Object(more), Value::Object(there)) => there.extend(more.clone()),
            (value, there) => *there = value.clone(),
        }
    }
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DNSServer",
        "metadata": { "name": "lab", "namespace": "clusters" }, "spec": spec,
    }))
    .unwrap()
}

fn records(view: &View) -> Vec<String> {
    let records = view.zones.iter().flat_map(|zone| zone.records.iter().map(move |record| (zone, record)));
    let text =
        |(zone, record): (&Zone, &Record)| format!("{}: {} {:?}", zone.domain, record.name, record.addresses);
    records.map(text).collect()
}

#[test]
fn a_client_can_not_take_a_name_that_a_wildcard_has() {
    let entries = json!([
        { "hostname": "*.lab.example.com", "ip": "192.168.100.4" },
        { "hostname": "*.apps.lab.example.com", "ip": "192.168.100.4" },
    ]);
    let facts =
        Facts { leases: vec![("oauth".into(), "192.168.100.66".parse().unwrap())], ..Facts::default() };
    let listed = |entries: &Value| {
        let valid = validate(&server(&json!({ "staticEntries": entries }))).unwrap();
        records(&translate(&valid, &[valid.server], &facts).views[0])
    };
    assert!(!listed(&entries).iter().any(|record| record.contains("oauth")), "{:?}", listed(&entries));
    let one = json!([entries[1]]);
    assert!(listed(&one).iter().any(|record| record.contains("oauth.lab.example.com [192.168.100.66]")));
}

#[test]
fn clients_on_the_network_get_the_proxy_and_pods_the_internal_address() {
    let object = server(&json!({ "networkConfig": { "internalProxyIP": "front.edge.svc.cluster.local" } }));
    let valid = validate(&object).unwrap();
    let service = ServiceRef { namespace: "edge".into(), name: "front".into() };
    assert_eq!(valid.internal, Some(Internal::Service(service)));
    let facts = Facts {
        internal: vec!["10.96.0.20".parse().unwrap()],
        leases: vec![
            ("vm-1".into(), "192.168.100.50".parse().unwrap()),
            ("api".into(), "192.168.100.66".parse().unwrap()),
            ("ns".into(), "192.168.100.66".parse().unwrap()),
            ("x.apps".into(), "192.168.100.66".parse().unwrap()),
            ("*".into(), "192.168.100.66".parse().unwrap()),
        ],
    };
    let plan = translate(&valid, &["10.85.0.7".parse().unwrap(), valid.server], &facts);
    assert_eq!(plan.validate(), []);
    assert_eq!(plan.binds, ["10.85.0.7:53".parse().unwrap(), "192.168.100.3:53".parse().unwrap()]);
    assert_eq!(
        records(&plan.views[0]),
        [
            "console.example.org: console.example.org [192.168.100.4]",
            "lab.example.com: api.lab.example.com [192.168.100.4]",
            "lab.example.com: registry.lab.example.com [192.168.100.30]",
            "lab.example.com: vm-1.lab.example.com [192.168.100.50]",
            "lab.example.com: *.apps.lab.example.com [192.168.100.4]",
        ],
        "a client can't take a name that is listed"
    );
    assert_eq!(
        records(&plan.views[1]),
        [
            "console.example.org: console.example.org [10.96.0.20]",
            "lab.example.com: api.lab.example.com [10.96.0.20]",
            "lab.example.com: registry.lab.example.com [192.168.100.30]",
            "lab.example.com: *.apps.lab.example.com [10.96.0.20]",
        ]
    );
    for view in &plan.views {
        let open: Vec<_> =
            view.zones.iter().filter(|zone| zone.open).map(|zone| zone.domain.as_str()).collect();
        assert_eq!(open, ["console.example.org"], "other names of a foreign domain are its owner's");
    }
    assert_eq!(plan.views[0].sources, [valid.network]);
    for view in &plan.views {
        assert_eq!(view.reverse, [valid.network], "addresses of the network are asked nowhere else");
    }
}

#[test]
fn without_an_internal_address_pods_see_no_entry_and_the_domain_is_asked_nowhere() {
    let plan = translate(&validate(&server(&json!({}))).unwrap(), &[], &Facts::default());
    assert_eq!(records(&plan.views[1]), [""; 0]);
    assert_eq!(plan.views[1].zones[0].domain.as_str(), "lab.example.com");
}

#[test]
fn a_problem_names_its_field_and_what_to_write() {
    let twice = json!([
        { "hostname": "api.lab.example.com", "ip": "192.168.100.4" },
        { "hostname": "API.lab.example.com", "ip": "192.168.100.4" },
    ]);
    for (fields, path, words) in [
        (
            json!({ "networkConfig": { "serverIP": "10.0.0.3" } }),
            "spec.networkConfig.serverIP",
            "in 192.168.100.0/24",
        ),
        (
            json!({ "networkConfig": { "serverIP": "192.168.100.0" } }),
            "spec.networkConfig.serverIP",
            "machine in",
        ),
        (
            json!({ "networkConfig": { "serverIP": "192.168.100.255/24" } }),
            "spec.networkConfig.serverIP",
            "machine in",
        ),
        (
            json!({ "networkConfig": { "proxyIP": "192.168.100.3" } }),
            "spec.networkConfig.proxyIP",
            "server's own",
        ),
        (
            json!({ "networkConfig": { "secondaryNetworkCIDR": null } }),
            "spec.networkConfig.secondaryNetworkCIDR",
            "prefix",
        ),
        (
            json!({ "networkConfig": { "internalProxyIP": "a.b.example.com" } }),
            "spec.networkConfig.internalProxyIP",
            "NAME.NAMESPACE.svc",
        ),
        (
            json!({ "networkConfig": { "networkAttachmentNamespace": "x" } }),
            "spec.networkConfig.networkAttachmentNamespace",
            "alone",
        ),
        (json!({ "hostedClusterDomain": "*.example.com" }), "spec.hostedClusterDomain", "wildcard"),
        (json!({ "staticEntries": twice }), "spec.staticEntries[1].hostname", "already staticEntries[0]"),
        (
            json!({ "staticEntries": [{ "hostname": "a.b", "ip": "0.0.0.0" }] }),
            "spec.staticEntries[0].ip",
            "host",
        ),
        (json!({ "upstreamDNS": ["192.168.100.3"] }), "spec.upstreamDNS[0]", "this server itself"),
        (
            json!({ "upstreamDNS": ["10.0.0.1", "10.0.0.1:53"] }),
            "spec.upstreamDNS[1]",
            "already upstreamDNS[0]",
        ),
        (json!({ "upstreamDNS": ["dns.example.com"] }), "spec.upstreamDNS[0]", "10.0.0.53"),
        (json!({ "cacheTTL": "900h" }), "spec.cacheTTL", "24h"),
        (json!({ "cacheTTL": "long" }), "spec.cacheTTL", "5s"),
    ] {
        let found = validate(&server(&fields)).expect_err(&fields.to_string());
        assert_eq!(found.len(), 1, "{fields}: {found:?}");
        assert!(found[0].path == path && found[0].message.contains(words), "{fields}: {found:?}");
    }
}
