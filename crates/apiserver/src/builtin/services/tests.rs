use serde_json::{Value, json};

use super::{ClusterIpWish, Service, cluster_ip_wanted};
use crate::builtin::services::endpoints::{EndpointSlice, Endpoints};
use crate::resource::Strategy;

fn made(spec: Value) -> Value {
    let mut service = json!({ "spec": spec });
    Service.default(&mut service);
    Service.prepare(&mut service, None);
    service
}

fn errors(strategy: &dyn Strategy, new: &Value, old: Option<&Value>) -> Vec<String> {
    strategy.validate(new, old).iter().map(ToString::to_string).collect()
}

#[test]
fn fills_in_what_a_service_leaves_out() {
    let service =
        made(json!({"ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "targetPort": "dns"}]}));
    let want = json!({
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 53, "protocol": "UDP", "targetPort": "dns"}]
    });
    assert_eq!(service["spec"], want);
    assert_eq!(made(json!({"clusterIP": "None"}))["spec"]["clusterIPs"], json!(["None"]));
    assert!(made(json!({"type": "ExternalName"}))["spec"]["ipFamilies"].is_null());
}

#[test]
fn says_which_address_is_wanted() {
    let ip = "10.0.0.7".parse().unwrap();
    for (spec, wish) in [
        (json!({}), ClusterIpWish::Allocate),
        (json!({"type": "NodePort"}), ClusterIpWish::Allocate),
        (json!({"clusterIP": "None"}), ClusterIpWish::Headless),
        (json!({"clusterIP": "10.0.0.7"}), ClusterIpWish::Fixed(ip)),
        (json!({"clusterIPs": ["10.0.0.7"]}), ClusterIpWish::Fixed(ip)),
        (json!({"type": "ExternalName"}), ClusterIpWish::None),
        (json!({"clusterIP": "ten"}), ClusterIpWish::None),
    ] {
        assert_eq!(cluster_ip_wanted(&json!({ "spec": spec })), wish, "{spec}");
    }
}

#[test]
fn refuses_bad_services_in_kubernetes_words() {
    let cases = [
        (json!({}), "spec.ports: Required value"),
        (json!({"ports": [{"port": 1}, {"port": 2}]}), "spec.ports[0].name: Required value"),
        (
            json!({"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}),
            "spec.ports[1].name: Duplicate value: \"a\"",
        ),
        (
            json!({"ports": [{"port": 0}]}),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"ports": [{"port": 1, "targetPort": "no_good"}]}),
            "spec.ports[0].targetPort: Invalid value: \"no_good\": must contain only alpha-numeric characters",
        ),
        (
            json!({"ports": [{"port": 1, "protocol": "ICMP"}]}),
            "spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            json!({"ports": [{"port": 1, "nodePort": 30000}]}),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            json!({"ports": [{"port": 1}], "type": "Magic"}),
            "spec.type: Unsupported value: \"Magic\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            json!({"ports": [{"port": 1}], "clusterIP": "ten"}),
            "spec.clusterIPs[0]: Invalid value: \"ten\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            json!({"ports": [{"port": 1}], "selector": {"a": "b c"}}),
            "spec.selector: Invalid value: \"b c\": a valid label must be",
        ),
        (json!({"type": "ExternalName"}), "spec.externalName: Required value"),
        (
            json!({"ports": [{"port": 1}], "type": "NodePort", "clusterIP": "None"}),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
    ];
    for (spec, want) in cases {
        let got = errors(&Service, &made(spec.clone()), None);
        assert!(got.iter().any(|e| e.starts_with(want)), "{spec}: {got:?}");
    }
}

#[test]
fn the_address_stays_and_need_not_be_repeated() {
    let old = made(json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.7"}));
    let update = |spec: Value| {
        let mut new = json!({ "spec": spec });
        Service.default(&mut new);
        Service.prepare(&mut new, Some(&old));
        let errors = errors(&Service, &new, Some(&old));
        (new, errors)
    };
    let (kept, none) = update(json!({"ports": [{"port": 81}]}));
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(kept["spec"]["clusterIP"], "10.0.0.7");
    assert_eq!(kept["spec"]["clusterIPs"], json!(["10.0.0.7"]));
    let (_, changed) =
        update(json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.7"]}));
    assert_eq!(changed, ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.8\"]: may not change once set"]);
    let (external, none) =
        update(json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.7",
        "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}));
    assert!(none.is_empty(), "{none:?}");
    assert!(external["spec"]["clusterIP"].is_null());
}

#[test]
fn node_ports_stay_with_the_type_that_needs_them() {
    let old = made(
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}], "clusterIP": "10.0.0.7"}),
    );
    let mut kept = json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    Service.prepare(&mut kept, Some(&old));
    assert_eq!(kept["spec"]["ports"][0]["nodePort"], 30080);
    let mut plain = old.clone();
    plain["spec"]["type"] = "ClusterIP".into();
    Service.prepare(&mut plain, Some(&old));
    Service.default(&mut plain);
    assert!(plain["spec"]["ports"][0]["nodePort"].is_null());
    assert_eq!(errors(&Service, &plain, Some(&old)), Vec::<String>::new());
}

#[test]
fn refuses_bad_endpoints_in_kubernetes_words() {
    let slice = |ty: &str, address: &str| json!({"addressType": ty, "endpoints": [{"addresses": [address]}]});
    let cases: [(&dyn Strategy, Value, &str); 7] = [
        (&EndpointSlice, json!({}), "addressType: Required value"),
        (
            &EndpointSlice,
            json!({"addressType": "IPv4", "endpoints": [{}]}),
            "endpoints[0].addresses: Required value: must contain at least 1 address",
        ),
        (
            &EndpointSlice,
            slice("IPv4", "fd00::1"),
            "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address",
        ),
        (
            &EndpointSlice,
            slice("IPv4", "0.0.0.0"),
            "endpoints[0].addresses[0]: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)",
        ),
        (
            &EndpointSlice,
            slice("IPv4", "x"),
            "endpoints[0].addresses[0]: Invalid value: \"x\": must be a valid IP address",
        ),
        (
            &Endpoints,
            json!({"subsets": [{}]}),
            "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
        ),
        (
            &Endpoints,
            json!({"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1, "protocol": "TCP"},
            {"port": 2, "protocol": "TCP", "name": "b"}]}]}),
            "subsets[0].ports[0].name: Required value",
        ),
    ];
    for (strategy, object, want) in cases {
        let got = errors(strategy, &object, None);
        assert!(got.iter().any(|e| e.starts_with(want)), "{object}: {got:?}");
    }
    let (old, new) = (slice("IPv4", "10.0.0.1"), slice("IPv6", "fd00::1"));
    assert_eq!(
        errors(&EndpointSlice, &new, Some(&old)),
        ["addressType: Invalid value: \"IPv6\": field is immutable"]
    );
    assert!(errors(&EndpointSlice, &slice("IPv4", "127.0.0.1"), None).is_empty(), "pods are local processes");
}

/// The address is the server's, so it is the family that is to blame.
#[test]
fn a_family_that_is_not_there_is_named() {
    let mut service = made(json!({"ipFamilies": ["IPv6"], "ports": [{"port": 80}]}));
    service["spec"]["clusterIP"] = "10.0.0.7".into();
    service["spec"]["clusterIPs"] = json!(["10.0.0.7"]);
    assert_eq!(
        errors(&Service, &service, None),
        ["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"]
    );
}
