use serde_json::{Value, json};

use super::*;
use crate::vlan::infra::fixture;

fn problems(infra: &Infra) -> Vec<(String, String)> {
    let valid = validate(infra, &Observed::default());
    valid.problems.into_iter().map(|found| (found.problem.path, found.problem.message)).collect()
}

#[test]
fn each_problem_names_its_field_and_the_way_out() {
    let domain = json!({ "baseDomain": "example.com" });
    let cases: &[(Value, &str, &str)] = &[
        (json!({"dhcp": {"serverIP": "10.0.0.2"}}), "dhcp.serverIP", "leave it out to have one chosen"),
        (json!({"dhcp": {"serverIP": "192.168.100.255"}}), "dhcp.serverIP", "not a host address"),
        (json!({"dhcp": {"serverIP": "192.168.100.1"}}), "dhcp.serverIP", "also spec.networkConfig.gateway"),
        (json!({"dhcp": {"rangeStart": "192.168.100.9"}}), "dhcp.rangeEnd", "together"),
        (
            json!({"dhcp": {"rangeStart": "192.168.99.9", "rangeEnd": "192.168.100.10"}}),
            "dhcp.rangeStart",
            "not a host address in 192.168.100.0/24",
        ),
        (
            json!({"dhcp": {"rangeStart": "192.168.100.20", "rangeEnd": "192.168.100.10"}}),
            "dhcp.rangeEnd",
            "swap the two",
        ),
        (
            json!({"dhcp": {"rangeStart": "192.168.100.1", "rangeEnd": "192.168.100.10"}}),
            "dhcp.rangeStart",
            "holds the gateway",
        ),
        (
            json!({
                "dhcp": {"rangeStart": "192.168.100.10", "rangeEnd": "192.168.100.20"},
                "dns": {"serverIP": "192.168.100.15", "baseDomain": "example.com"},
            }),
            "dns.serverIP",
            "a shorter range",
        ),
        (
            json!({
                "dhcp": {"serverIP": "192.168.100.7"},
                "dns": {"serverIP": "192.168.100.7", "baseDomain": "example.com"},
            }),
            "dns.serverIP",
            "also spec.infraComponents.dhcp.serverIP",
        ),
        (
            json!({
                "dhcp": {"reservations": [{"mac": "02:00:00:00:00:01", "ip": "192.168.100.7"}]},
                "dns": {"serverIP": "192.168.100.7", "baseDomain": "example.com"},
            }),
            "dhcp.reservations[0].ip",
            "also spec.infraComponents.dns.serverIP: reserve another",
        ),
        (json!({"proxy": {}}), "dns.baseDomain", "example.com"),
        (
            json!({"dns": {"baseDomain": "example.com", "extraEntries": [{"hostname": "a.example.com"}]}}),
            "dns.extraEntries[0].ip",
            "while there is no proxy",
        ),
        (
            json!({"dns": domain, "proxy": {"backends": [{"name": "oauth", "disabled": true}]}}),
            "proxy.backends[0].name",
            "write one of kube-apiserver,",
        ),
        (
            json!({"dns": domain, "proxy": {"backends": [
                {"name": "x", "hostname": "x.example.com", "port": 443, "targetService": "x"},
            ]}}),
            "proxy.backends[0].targetPort",
            "further backend",
        ),
        (
            json!({"dns": domain, "proxy": {"backends": [
                {"name": "ignition-server", "hostname": "oauth.lab.example.com"},
            ]}}),
            "proxy.backends[0].hostname",
            "already by backend `oauth-openshift` at spec.infraComponents.proxy.backends[oauth-openshift].hostname",
        ),
        (
            json!({"dns": domain, "proxy": {"backends": [{"name": "oauth-openshift", "port": 8080}]}}),
            "proxy.backends[0].port",
            "the port of the proxy's health checks",
        ),
        (
            json!({"dns": domain, "proxy": {"ports": [{"port": 443, "noSNI": {"backend": "kube-apiserver"}}]}}),
            "proxy.ports[0].noSNI.backend",
            "backend `kube-apiserver` is on port 6443, not on 443",
        ),
    ];
    for (components, field, words) in cases {
        let found = problems(&fixture::infra(components));
        let [(path, message)] = found.as_slice() else {
            panic!("{components}: one problem expected: {found:?}")
        };
        assert_eq!(*path, format!("spec.infraComponents.{field}"), "{components}");
        assert!(message.contains(words), "{components}: {message}");
    }
}

#[test]
fn a_bad_network_makes_every_enabled_component_invalid() {
    let mut infra = fixture::infra(&json!({ "dhcp": {}, "dns": { "baseDomain": "example.com" } }));
    infra.spec.network_config.cidr = "192.168.100.0/99".into();
    let valid = validate(&infra, &Observed::default());
    assert_eq!(
        (valid.dhcp, valid.dns, valid.proxy),
        (Requested::Invalid, Requested::Invalid, Requested::Disabled)
    );
    infra.spec.network_config.cidr = "192.168.100.0/24".into();
    for gateway in ["192.168.101.1", "192.168.100.0", "192.168.100.255"] {
        infra.spec.network_config.gateway = gateway.into();
        assert_eq!(problems(&infra)[0].0, "spec.networkConfig.gateway", "{gateway}");
    }
}

#[test]
fn no_server_is_given_the_address_of_a_client_nor_a_client_that_of_a_server() {
    let mut components = fixture::all();
    components["dhcp"] = json!({"reservations": [{"mac": "02:00:00:00:00:01", "ip": "192.168.100.3"}]});
    let infra = fixture::infra(&components);
    let Requested::Enabled(dns) = validate(&infra, &Observed::default()).dns else { panic!("it is fine") };
    assert_eq!(dns.address.to_string(), "192.168.100.4");
    let previous = Chosen { servers: [None, "192.168.100.3".parse().ok(), None], range: None };
    let valid = validate(&infra, &Observed { previous, ..Observed::default() });
    assert_eq!(valid.problems[0].problem.path, "spec.infraComponents.dhcp.reservations[0].ip");
    let Requested::Enabled(dns) = valid.dns else { panic!("{:?}", valid.problems) };
    assert_eq!(dns.address.to_string(), "192.168.100.3", "what was chosen stays");
}

#[test]
fn a_full_network_says_so() {
    let mut infra = fixture::infra(&fixture::all());
    infra.spec.network_config.cidr = "192.168.100.0/30".into();
    let valid = validate(&infra, &Observed::default());
    assert!(
        valid.problems.iter().all(|problem| problem.reason == Reason::AddressesExhausted),
        "{:?}",
        valid.problems
    );
    assert_eq!((valid.dhcp, valid.proxy), (Requested::Invalid, Requested::Invalid));
}

#[test]
fn a_disabled_component_is_off_and_its_domain_still_counts() {
    let infra =
        fixture::infra(&json!({ "dns": { "enabled": false, "baseDomain": "example.com" }, "proxy": {} }));
    let valid = validate(&infra, &Observed::default());
    assert_eq!(valid.dns, Requested::Disabled);
    let Requested::Enabled(proxy) = valid.proxy else { panic!("{:?}", valid.problems) };
    assert_eq!(proxy.backends[0].hostname, "api.lab.example.com");
}

#[test]
fn resolvers_for_clients_are_bare_addresses() {
    let mut infra = fixture::infra(&json!({ "dhcp": {} }));
    infra.spec.network_config.dns_servers = vec!["10.0.0.53".into(), "tls://10.0.0.54".into()];
    assert_eq!(problems(&infra)[0].0, "spec.networkConfig.dnsServers[1]");
}

#[test]
fn a_wrong_port_of_the_proxy_leaves_dns_alone() {
    let wrong = json!([{ "name": "oauth-openshift", "port": 18000 }]);
    let infra =
        fixture::infra(&json!({ "dns": { "baseDomain": "example.com" }, "proxy": { "backends": wrong } }));
    let valid = validate(&infra, &Observed::default());
    assert!(valid.problems[0].problem.message.contains("spec.xdsPort"), "{:?}", valid.problems);
    assert!(matches!(valid.dns, Requested::Enabled(_)), "{:?}", valid.dns);
    assert_eq!(valid.proxy, Requested::Invalid);
}
