use serde_json::{Value, json};

use super::*;
use crate::vlan::infra::{fixture, validate::validate};

fn children(infra: &Infra, observed: &Observed) -> Value {
    let valid = validate(infra, observed);
    assert_eq!(valid.problems, [], "the spec must be fine");
    let desired = desired(infra, &valid, observed);
    json!({ "dhcp": desired.dhcp, "dns": desired.dns, "proxy": desired.proxy })
}

#[test]
fn a_short_spec_becomes_three_complete_children() {
    insta::assert_yaml_snapshot!(children(&fixture::infra(&fixture::all()), &Observed::default()));
}

#[test]
fn written_values_reach_the_children() {
    let infra = fixture::infra(&json!({
        "dhcp": {
            "serverIP": "192.168.100.2/24", "rangeStart": "192.168.100.50", "rangeEnd": "192.168.100.99",
            "leaseTime": "2h", "image": "registry.example.com/dhcp:1",
        },
        "dns": {
            "serverIP": "192.168.100.3", "baseDomain": "Example.com", "clusterName": "species",
            "extraEntries": [
                { "hostname": "*.apps.species.example.com", "ip": "192.168.100.40" },
                { "hostname": "console.species.example.com" },
            ],
        },
        "proxy": {
            "serverIP": "192.168.100.4", "additionalServerIPs": ["192.168.100.5"], "replicas": 2,
            "controlPlaneNamespace": "hcp", "apiServerService": "apiserver", "internalProxyService": "10.1.2.3",
            "backends": [
                { "name": "ignition-server", "hostname": "ignition-server-hcp.apps.mgmt.example.com" },
                { "name": "oauth-openshift", "disabled": true },
            ],
        },
    }));
    insta::assert_yaml_snapshot!(children(&infra, &Observed::default()));
}

#[test]
fn without_dns_clients_get_the_networks_resolvers() {
    let children = children(&fixture::infra(&json!({ "dhcp": {} })), &Observed::default());
    assert_eq!(children["dhcp"]["spec"]["networkConfig"]["dnsServers"], json!(["10.0.0.53"]));
    assert_eq!((&children["dns"], &children["proxy"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_pod_network_is_sent_to_the_proxys_service_once_it_has_one() {
    let infra = fixture::infra(&fixture::all());
    let pointer = "/dns/spec/networkConfig/internalProxyIP";
    assert_eq!(children(&infra, &Observed::default()).pointer(pointer), None);
    let observed = Observed { proxy_service_ip: Some("10.96.0.7".into()), ..Observed::default() };
    assert_eq!(children(&infra, &observed).pointer(pointer), Some(&json!("10.96.0.7")));
}

#[test]
fn an_invalid_component_is_kept_and_the_others_go_on() {
    let infra = fixture::infra(&json!({
        "dhcp": { "rangeStart": "10.9.9.9", "rangeEnd": "10.9.9.10" },
        "dns": { "baseDomain": "example.com" },
        "proxy": {},
    }));
    let valid = validate(&infra, &Observed::default());
    let desired = desired(&infra, &valid, &Observed::default());
    assert_eq!(desired.keep, [(Component::Dhcp.kind(), "lab-dhcp".to_owned())]);
    assert!(desired.dhcp.is_none() && desired.dns.is_some() && desired.proxy.is_some());
}

#[test]
fn an_ipv6_network_has_names_and_a_proxy_and_leases_need_ipv4() {
    let mut infra = fixture::infra(&fixture::all());
    infra.spec.network_config.cidr = "fd00:100::/64".into();
    infra.spec.network_config.gateway = "fd00:100::1".into();
    let valid = validate(&infra, &Observed::default());
    let desired = desired(&infra, &valid, &Observed::default());
    assert_eq!(desired.dns.unwrap().spec.network_config.proxy_ip.as_deref(), Some("fd00:100::4"));
    assert_eq!(desired.proxy.unwrap().spec.network_config.server_ip.as_deref(), Some("fd00:100::4/64"));
    let first = valid.problems.iter().find(|found| found.components == [Component::Dhcp]).unwrap();
    assert_eq!(first.problem.path, "spec.networkConfig.cidr");
    assert!(first.problem.message.contains("infraComponents.dhcp.ipv6.cidr"), "{}", first.problem);
}
