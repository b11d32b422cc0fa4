//! The definitions as Kubernetes sees them, and types and schema agreeing on defaults.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn definitions() -> Vec<Value> {
    crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

/// The kinds that people write; the rest is between the operator and its pods.
fn written() -> Vec<Value> {
    let ours = ["Supply", "GatewayPlan", "AddressClaim"];
    let is_ours = |crd: &Value| ours.iter().any(|kind| crd["spec"]["names"]["kind"] == *kind);
    definitions().into_iter().filter(|crd| !is_ours(crd)).collect()
}

/// Calls `visit` with every schema of a definition, parents first.
fn walk(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), child, visit);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&format!("{path}[]"), &schema[key], visit);
        }
    }
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn kinds_have_their_names() {
    let names: Vec<_> = definitions()
        .iter()
        .map(|crd| {
            let names = &crd["spec"]["names"];
            let short = names["shortNames"].as_array().cloned().unwrap_or_default();
            let short: Vec<_> = short.iter().filter_map(Value::as_str).collect();
            let text = |field: &str| names[field].as_str().unwrap().to_owned();
            (text("kind"), text("plural"), short.join(","), crd["spec"]["scope"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [
        ("Infra", "infras", "infra", "Namespaced"),
        ("ProxyServer", "proxyservers", "pxs", "Namespaced"),
        ("DNSServer", "dnsservers", "dnssrv", "Namespaced"),
        ("DHCPServer", "dhcpservers", "dhcpserver", "Namespaced"),
        ("ContainerNetwork", "containernetworks", "ctrnet", "Namespaced"),
        ("ContainerNetworkTunnelProxy", "containernetworktunnelproxies", "cntp", "Namespaced"),
        ("Workstation", "workstations", "ws", "Namespaced"),
        ("InterceptRequest", "interceptrequests", "ireq", "Namespaced"),
        ("GatewayHostnameRequest", "gatewayhostnamerequests", "ghr", "Namespaced"),
        ("DomainClaim", "domainclaims", "", "Cluster"),
        ("HostnameGrant", "hostnamegrants", "", "Namespaced"),
        ("HostnameZone", "hostnamezones", "hzone", "Cluster"),
        ("GatewayParameters", "gatewayparameters", "gwparams", "Namespaced"),
        ("TrafficPolicy", "trafficpolicies", "tpol", "Namespaced"),
        ("Supply", "supplies", "", "Namespaced"),
        ("GatewayPlan", "gatewayplans", "", "Namespaced"),
        ("AddressClaim", "addressclaims", "", "Namespaced"),
    ]
    .map(|(kind, plural, short, scope)| {
        (kind.to_owned(), plural.to_owned(), short.to_owned(), scope.to_owned())
    });
    assert_eq!(names, expected);
}

#[test]
fn every_kind_has_a_status_with_conditions_and_an_age() {
    for crd in written() {
        let name = &crd["metadata"]["name"];
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["name"], names::VERSION, "{name}");
        assert_eq!(crd["spec"]["group"], names::GROUP, "{name}");
        assert_eq!(crd["spec"]["names"]["categories"], json!([names::CATEGORY]), "{name}");
        assert!(version["subresources"]["status"].is_object(), "{name}");
        let status = &schema(&crd)["properties"]["status"]["properties"];
        assert_eq!(status["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]), "{name}");
        assert_eq!(status["observedGeneration"]["type"], "integer", "{name}");
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert_eq!(columns.last().unwrap()["name"], "Age", "{name}");
        for path in version["selectableFields"].as_array().into_iter().flatten() {
            let pointer = path["jsonPath"].as_str().unwrap().replace('.', "/properties/");
            assert_eq!(schema(&crd).pointer(&pointer).unwrap()["type"], "string", "{name} {path}");
        }
    }
}

#[test]
fn every_rule_has_a_message() {
    for crd in definitions() {
        walk("", schema(&crd), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                assert!(rule["message"].as_str().is_some_and(|m| !m.contains('\n')), "{path}: {rule}");
                // Kubernetes asks that a rule names a field that exists.
                if let Some(field) = rule["fieldPath"].as_str() {
                    let pointer = field.replace('.', "/properties/");
                    assert!(schema.pointer(&pointer).is_some(), "{path}: no field {field}");
                }
            }
        });
    }
}

/// Kubernetes estimates what rules may cost from these bounds and refuses a definition without them.
#[test]
fn everything_a_user_writes_is_bounded() {
    for crd in written() {
        let spec = &schema(&crd)["properties"]["spec"];
        walk("spec", spec, &mut |path, schema| {
            if path.contains("Selector") || path.contains(".selector") {
                return;
            }
            let at = format!("{} {path}", crd["spec"]["names"]["kind"]);
            match schema["type"].as_str() {
                Some("string") => assert!(schema["enum"].is_array() || schema["maxLength"].is_u64(), "{at}"),
                Some("array") => assert!(schema["maxItems"].is_u64(), "{at}"),
                _ => {}
            }
        });
    }
}

#[test]
fn every_field_is_described_and_none_is_foreign_to_kubernetes() {
    for crd in definitions() {
        let kind = &crd["spec"]["names"]["kind"];
        walk("", schema(&crd), &mut |path, schema| {
            assert!(schema.get("nullable").is_none(), "{kind} {path}");
            assert!(!schema["format"].as_str().is_some_and(|f| f.starts_with("uint")), "{kind} {path}");
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                let standard = path.is_empty() && ["spec", "status"].contains(&name.as_str());
                assert!(standard || child["description"].is_string(), "{kind} {path}.{name}");
            }
        });
    }
}

/// What serde fills in is what the schema fills in, so that a controller and `kubectl get -o yaml` agree.
fn same_defaults<T: Serialize + DeserializeOwned>(kind: &str, minimal: Value) {
    let filled = serde_json::to_value(serde_json::from_value::<T>(minimal.clone()).unwrap()).unwrap();
    let crd = definitions().into_iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
    let mut expected = minimal;
    fill(&schema(&crd)["properties"]["spec"], &mut expected);
    assert_eq!(filled, expected, "{kind}");
}

fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = child.get("default") {
                    map.entry(name.clone()).or_insert_with(|| default.clone());
                }
                if let Some(value) = map.get_mut(name) {
                    fill(child, value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}

#[test]
fn types_and_schemas_agree_on_defaults() {
    let network =
        json!({ "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "networkAttachmentDefinition": "vlan" });
    let components = json!({
        "dhcp": {},
        "dns": { "extraEntries": [{ "hostname": "a.example.com" }] },
        "proxy": { "backends": [{ "name": "kube-apiserver" }], "ports": [{ "port": 443 }] },
    });
    same_defaults::<InfraSpec>("Infra", json!({ "networkConfig": network }));
    same_defaults::<InfraSpec>("Infra", json!({ "networkConfig": network, "infraComponents": components }));
    let backend = json!({
        "name": "a", "hostname": "a", "port": 1, "targetService": "a", "targetPort": 1, "targetNamespace": "a",
    });
    same_defaults::<ProxyServerSpec>(
        "ProxyServer",
        json!({ "networkConfig": { "serverIP": "10.0.0.2" }, "backends": [backend.clone()] }),
    );
    let mut checked = backend;
    checked["healthCheck"] = json!({});
    same_defaults::<ProxyServerSpec>(
        "ProxyServer",
        json!({ "networkConfig": { "serverIP": "10.0.0.2" }, "backends": [checked], "ports": [{ "port": 1 }] }),
    );
    same_defaults::<DNSServerSpec>(
        "DNSServer",
        json!({ "networkConfig": { "serverIP": "10.0.0.3" }, "hostedClusterDomain": "a.example.com" }),
    );
    same_defaults::<DHCPServerSpec>(
        "DHCPServer",
        json!({
            "networkConfig": { "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "serverIP": "10.0.0.2" },
            "leaseConfig": { "rangeStart": "10.0.0.5", "rangeEnd": "10.0.0.9" },
        }),
    );
    same_defaults::<ContainerNetworkSpec>("ContainerNetwork", json!({}));
    let tunnel = json!({ "name": "a", "serverServiceName": "a", "clientServiceName": "b" });
    same_defaults::<ContainerNetworkTunnelProxySpec>(
        "ContainerNetworkTunnelProxy",
        json!({ "containerNetworkName": "a", "tunnels": [tunnel] }),
    );
    same_defaults::<WorkstationSpec>("Workstation", json!({ "publicKey": "k" }));
    same_defaults::<InterceptRequestSpec>(
        "InterceptRequest",
        json!({
            "target": "deploy/a", "targetContainerPort": 80, "workstation": "w", "destinationPort": 80,
            "match": [{ "headers": [{ "name": "a", "value": "b" }], "path": { "value": "/" } }],
        }),
    );
    same_defaults::<GatewayHostnameRequestSpec>(
        "GatewayHostnameRequest",
        json!({ "zoneId": "Z", "hostname": "a.example.com" }),
    );
    same_defaults::<HostnameZoneSpec>("HostnameZone", json!({ "zoneId": "Z", "domain": "example.com" }));
    same_defaults::<HostnameZoneSpec>(
        "HostnameZone",
        json!({ "zoneId": "Z", "domain": "example.com", "dns": {}, "certificates": {} }),
    );
}

#[test]
fn defaults_are_the_documented_ones() {
    let proxy = ProxyServerSpec::default();
    assert_eq!(
        (proxy.port, proxy.xds_port, proxy.replicas, proxy.log_level),
        (443, 18000, 1, LogLevel::Info)
    );
    assert_eq!((proxy.admin_port, proxy.drain_seconds), (9901, 30));
    let backend = Backend::default();
    assert_eq!((backend.timeout_seconds, backend.protocol), (30, Protocol::Tcp));
    let dns = DNSServerSpec::default();
    assert_eq!(
        (dns.reload_interval.as_str(), dns.cache_ttl.as_str(), dns.network_config.dns_port),
        ("5s", "30s", 53)
    );
    assert_eq!(LeaseConfig::default().lease_time, "1h");
    let components: InfraComponents = serde_json::from_value(json!({ "dhcp": {}, "proxy": null })).unwrap();
    assert_eq!(components.dhcp, Some(DhcpComponent::default()));
    assert!(components.dhcp.unwrap().enabled && components.proxy.is_none());
    assert_eq!(ProxyComponent::default().api_server_service, "kube-apiserver");
    let request = GatewayHostnameRequestSpec::default();
    assert_eq!((request.visibility, request.gateway_class), (Visibility::InternetFacing, None));
    assert!(InterceptRequestSpec::default().fallback);
}

#[test]
fn persistent_wins_over_mode() {
    let network: ContainerNetworkSpec = serde_json::from_value(json!({ "persistent": true })).unwrap();
    assert_eq!(network.effective_mode(), NetworkMode::Persistent);
    assert_eq!(ContainerNetworkSpec::default().effective_mode(), NetworkMode::Session);
}

/// A pattern costs nothing of what rules may, so lists of backends can be long.
#[test]
fn the_pattern_of_server_names_takes_names_and_refuses_the_rest() {
    let crd = definitions().into_iter().find(|crd| crd["spec"]["names"]["kind"] == "ProxyServer").unwrap();
    let hostname = schema(&crd).pointer("/properties/spec/properties/backends/items/properties/hostname");
    let pattern = regex::Regex::new(hostname.unwrap()["pattern"].as_str().unwrap()).unwrap();
    for (name, good) in [
        ("a", true),
        ("api.example.com", true),
        ("*.apps.example.com", true),
        ("3-api", true),
        ("api.4you", true),
        ("1a.b2", true),
        ("xn--mnchen-3ya.de", true),
        ("", false),
        ("*", false),
        ("a.*.b", false),
        ("A.test", false),
        ("a..b", false),
        ("a.b.", false),
        ("-a.test", false),
        ("a-.test", false),
        ("a_b.test", false),
        ("10.0.0.1", false),
        ("*.10.0.0.1", false),
        ("fd00::1", false),
    ] {
        assert_eq!(pattern.is_match(name), good, "{name:?}");
    }
}
