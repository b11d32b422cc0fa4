use serde_json::{Value, json};

use super::*;
use crate::vlan::proxy::fixture;

fn native() -> Settings {
    Settings {
        engine: Engine::Native,
        manager_image: "causeway.dev/causeway:1".into(),
        proxy_image: "envoyproxy/envoy:v1".into(),
        openshift: false,
        require_grants: true,
        ..Settings::default()
    }
}

fn value(fields: &Value, settings: &Settings) -> Value {
    serde_json::to_value(desired(&fixture::proxy(fields), settings, None, None, &Observed::default()))
        .unwrap()
}

#[test]
fn a_native_proxy_becomes_its_children() {
    insta::assert_yaml_snapshot!(desired(
        &fixture::proxy(&json!({})),
        &native(),
        None,
        None,
        &Observed::default()
    ));
}

#[test]
fn an_envoy_proxy_has_two_containers_and_a_start_configuration() {
    let settings = Settings { openshift: true, ..native() };
    let fields = json!({ "engine": "Envoy", "logLevel": "warning" });
    let desired = value(&fields, &settings);
    let pod = &desired["deployments"][0]["spec"]["template"]["spec"];
    let names: Vec<_> = pod["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["envoy", "manager"]);
    let envoy = &pod["containers"][0];
    assert_eq!(envoy["command"], json!(["/usr/local/bin/envoy"]));
    assert_eq!(
        envoy["args"],
        json!(["-c", "/etc/envoy/bootstrap.json", "--drain-time-s", "30", "--disable-hot-restart"])
    );
    assert_eq!(pod["volumes"][2]["configMap"]["name"], "lab-proxy-bootstrap");
    assert_eq!(desired["configMap"]["metadata"]["name"], "lab-proxy-bootstrap");
    let start: Value =
        serde_json::from_str(desired["configMap"]["data"]["bootstrap.json"].as_str().unwrap()).unwrap();
    assert_eq!(start["node"]["id"], "lab");
    assert_eq!(start["admin"]["address"]["pipe"]["path"], "admin.sock");
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(container["workingDir"], "/var/lib/causeway", "where the sockets are");
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["mountPath"] == "/var/lib/causeway"), "{mounts:?}");
    }
    let binding = &desired["roleBindings"][2];
    assert_eq!(binding["metadata"]["name"], "lab-nonroot-scc");
    assert_eq!(binding["roleRef"]["name"], "system:openshift:scc:nonroot-v2");
}

#[test]
fn rights_in_another_namespace_need_its_grant() {
    let proxy = fixture::proxy(&json!({}));
    let namespaces = |grants: Option<&Grants>| {
        let desired = desired(&proxy, &native(), grants, None, &Observed::default());
        let roles = desired.roles.iter().map(|role| role.metadata.namespace.clone());
        let bindings = desired.role_bindings.iter().map(|binding| binding.metadata.namespace.clone());
        assert!(bindings.eq(roles.clone()), "each Role has its binding");
        roles.collect::<Vec<_>>()
    };
    let both = [None, Some("tools".to_owned())];
    assert_eq!(namespaces(None), both, "grants are not asked for");
    assert_eq!(namespaces(Some(&Grants::default())), [None]);
    assert_eq!(namespaces(Some(&fixture::grants(None))), both);
    // One Service of a namespace is no reason to see the others: the operator supplies it.
    assert_eq!(namespaces(Some(&fixture::grants(Some("web")))), [None]);

    let free = Settings { require_grants: false, ..native() };
    let args = |settings: &Settings| {
        value(&json!({}), settings)["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["args"]
            .to_string()
    };
    assert!(args(&free).contains(r#""--require-grants","false""#), "the proxies must know, too");
    assert!(!args(&native()).contains("grants"));
}

#[test]
fn every_replica_has_its_own_address_and_deployment() {
    let fields = json!({
        "replicas": 2,
        "networkConfig": {
            "serverIP": "192.168.100.4/25", "additionalServerIPs": ["192.168.100.5", "192.168.100.6"],
            "networkAttachmentName": "vlan100", "networkAttachmentNamespace": "networks",
        },
    });
    let desired = value(&fields, &native());
    let deployments = desired["deployments"].as_array().unwrap();
    let names: Vec<_> = deployments.iter().map(|d| &d["metadata"]["name"]).collect();
    assert_eq!(names, ["lab", "lab-2"], "an address more than replicas is for later");
    let networks: Vec<Value> = deployments
        .iter()
        .map(|d| &d["spec"]["template"]["metadata"]["annotations"][names::ANNOTATION_NETWORKS])
        .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(
        networks[0],
        json!([{ "name": "vlan100", "namespace": "networks", "ips": ["192.168.100.4/25"] }])
    );
    assert_eq!(networks[1][0]["ips"], json!(["192.168.100.5/25"]));
    let selectors: Vec<_> = deployments.iter().map(|d| &d["spec"]["selector"]["matchLabels"]).collect();
    assert_ne!(selectors[0], selectors[1], "two Deployments must not fight over pods");
    for (deployment, selector) in deployments.iter().zip(selectors) {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        for (key, value) in selector.as_object().unwrap() {
            assert_eq!(&labels[key], value);
        }
    }
}

#[test]
fn an_edit_of_backends_changes_no_pod() {
    let before = value(&json!({}), &native());
    let backends = json!([
        fixture::backend("api", "other.example.com", "clusters"),
        { "name": "dns", "hostname": "dns.example.com", "port": 53, "protocol": "UDP",
          "targetService": "dns", "targetPort": 53, "targetNamespace": "clusters" },
    ]);
    let after = value(&json!({ "backends": backends }), &native());
    assert_eq!(before["deployments"], after["deployments"]);
    let ports: Vec<_> = after["service"]["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| json!([port["name"], port["port"], port["protocol"]]))
        .collect();
    assert_eq!(ports, [json!(["proxy-53-udp", 53, "UDP"]), json!(["proxy", 443, "TCP"])]);
    assert_eq!(after["roles"].as_array().unwrap().len(), 1, "rights elsewhere go when nothing is there");
}

#[test]
fn what_a_running_proxy_can_follow_changes_no_pod() {
    for engine in ["Native", "Envoy"] {
        let with = |field: &str, value: &Value| {
            let mut fields = json!({ "engine": engine });
            fields[field] = value.clone();
            self::value(&fields, &native())["deployments"][0].clone()
        };
        let before = with("engine", &json!(engine));
        for (field, value, is_followed) in [
            ("logLevel", json!("debug"), true),
            ("connectionLimit", json!(1000), true),
            ("connectionsPerSource", json!(10), true),
            ("port", json!(8443), true),
            ("ports", json!([{ "port": 443, "noSNI": { "refuse": "Close" } }]), true),
            // Envoy hears of it when it starts, and then no more.
            ("drainSeconds", json!(5), engine == "Native"),
            // Longer than its pods were given to end.
            ("drainSeconds", json!(31), false),
            ("adminPort", json!(9902), false),
            ("managerImage", json!("causeway.dev/causeway:2"), false),
        ] {
            assert_eq!(with(field, &value) == before, is_followed, "{engine}: {field}");
        }
    }
}

#[test]
fn an_address_that_can_be_shared_is_never_without_a_pod() {
    let strategy = |fields: &Value| value(fields, &native())["deployments"][0]["spec"]["strategy"].clone();
    assert_eq!(strategy(&json!({})), json!({ "type": "Recreate" }), "on an attachment it is the pod's own");
    let shared = strategy(&json!({ "networkConfig": { "serverIP": "127.0.0.9" } }));
    assert_eq!(
        shared,
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } })
    );
}

#[test]
fn without_a_network_attachment_there_is_no_annotation() {
    let desired = value(&json!({ "networkConfig": { "serverIP": "127.0.0.9" } }), &native());
    let annotations = &desired["deployments"][0]["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations[names::ANNOTATION_NETWORKS], Value::Null);
}

#[test]
fn names_that_a_service_cannot_have_are_explained() {
    for good in ["lab", "a", &"a".repeat(63)] {
        assert_eq!(name_problem(good), None, "{good}");
    }
    for bad in ["1lab", "lab.example", &"a".repeat(64)] {
        assert_eq!(name_problem(bad).unwrap().path, "metadata.name", "{bad}");
    }
}
