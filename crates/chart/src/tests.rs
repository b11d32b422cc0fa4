use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn release() -> Release {
    Release { name: "causeway".into(), namespace: "causeway-system".into(), service: "kubectl".into() }
}

fn rendered(overrides: &Value) -> Vec<Document> {
    Chart::own().render(&release(), overrides).unwrap()
}

fn one<'a>(documents: &'a [Document], kind: &str, name: &str) -> &'a Value {
    let found = documents.iter().find(|one| one.kind() == kind && one.name() == name);
    &found.unwrap_or_else(|| panic!("no {kind} {name}")).object
}

#[test]
fn all_objects_are_found_by_their_labels_and_apply_in_order() {
    let documents = rendered(&json!({
        "namespace": {"create": true}, "openshift": true, "networkPolicy": {"enabled": true},
        "podTemplate": {"priorityClassName": "high"},
    }));
    let mut names = BTreeSet::new();
    for document in &documents {
        let labels = &document.object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/part-of"], "causeway", "{}", document.text);
        assert_eq!(labels["app.kubernetes.io/managed-by"], "kubectl", "{}", document.text);
        assert!(names.insert((document.kind(), document.namespace(), document.name())), "{}", document.text);
    }
    assert_eq!(documents[0].kind(), "Namespace");
    assert_eq!(documents.last().unwrap().kind(), "Deployment");
    assert_eq!(documents.iter().filter(|one| one.kind() == "CustomResourceDefinition").count(), 17);
}

#[test]
fn settings_reach_the_operator() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let documents = rendered(&json!({
        "image": {"repository": "reg.example/causeway", "digest": digest, "pullSecrets": [{"name": "reg"}]},
        "podTemplate": {"imagePullSecrets": [{"name": "reg"}]}, "openshift": true, "replicas": 1,
        "tolerations": [{"operator": "Exists"}], "hostnames": {"domains": ["a.example", "b.example"]},
    }));
    let deployment = one(&documents, "Deployment", "causeway-operator");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], format!("reg.example/causeway@{digest}"));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "reg"}]));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    let args = container["args"].to_string();
    for arg in
        ["--openshift", "--pod-template=/etc/causeway/pod-template.json", "--hostname-domain=b.example"]
    {
        assert!(args.contains(arg), "{args}");
    }
    let settings =
        one(&documents, "ConfigMap", "causeway-operator")["data"]["pod-template.json"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(settings).unwrap(),
        json!({"imagePullSecrets": [{"name": "reg"}]})
    );
    assert!(!documents.iter().any(|one| one.kind() == "PodDisruptionBudget"), "one pod has no budget");
}

#[test]
fn a_certificate_that_nobody_shows_is_not_mounted() {
    let secrets = |tls: Value| {
        let documents = rendered(&json!({"metrics": {"tls": tls}}));
        let pod = &one(&documents, "Deployment", "causeway-operator")["spec"]["template"]["spec"];
        (pod["volumes"].clone(), pod["containers"][0]["volumeMounts"].clone())
    };
    let (volumes, mounts) = secrets(json!({"enabled": true, "secretName": "metrics"}));
    assert_eq!(volumes[0]["secret"]["secretName"], "metrics");
    assert_eq!(mounts[0]["name"], volumes[0]["name"]);
    for tls in [json!({"enabled": false, "secretName": "metrics"}), json!({"enabled": true})] {
        assert_eq!(secrets(tls.clone()), (Value::Null, Value::Null), "{tls}");
    }
}

#[test]
fn an_installation_for_namespaces_has_rights_in_these_alone() {
    let documents = rendered(&json!({"namespaces": ["a", "b"], "crds": {"enabled": false}}));
    let places: BTreeSet<_> = documents.iter().map(|one| one.namespace()).collect();
    assert_eq!(places, BTreeSet::from([Some("a"), Some("b"), Some("causeway-system")]));
    for document in &documents {
        assert!(!document.kind().starts_with("Cluster"), "{}", document.text);
        if document.kind() == "Role" {
            let text = document.object["rules"].to_string();
            for word in ["secrets", "nodes", "\"namespaces\"", "\"*\""] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    }
    let args =
        &one(&documents, "Deployment", "causeway-operator")["spec"]["template"]["spec"]["containers"][0];
    let args = args["args"].to_string();
    assert!(args.contains("--namespaces=a") && args.contains("--namespaces=b"), "{args}");
}

/// Who may grant what an operator in a namespace gets must have it.
#[test]
fn tenants_have_what_they_give() {
    let documents = rendered(&json!({"namespaces": ["a"], "rbac": {"tenants": true}}));
    let tenants = one(&documents, "ClusterRole", "causeway:install-operators")["rules"].as_array().unwrap();
    for role in ["causeway-operator", "causeway-operator-election"] {
        for rule in one(&documents, "Role", role)["rules"].as_array().unwrap() {
            assert!(tenants.contains(rule), "{rule}");
        }
    }
}

/// An installation for the whole cluster takes what is its own when it goes: by its label, and by the names of the chart.
#[test]
fn what_tenants_need_is_no_installations() {
    let installed = rendered(&json!({"rbac": {"tenants": true, "aggregateGatewayApi": true}}));
    let text = std::fs::read_to_string(causeway_testkit::deploy("tenants.yaml")).unwrap();
    let tenants: Vec<Document> = document::split(&text).unwrap();
    assert_eq!(tenants.len(), 4);
    for role in tenants {
        assert_eq!(role.object["metadata"]["labels"][INSTALLED_IN], TENANTS, "{}", role.text);
        assert!(!installed.iter().any(|one| one.name() == role.name()), "{}", role.name());
    }
}

#[test]
fn values_that_are_not_taken_are_named() {
    for (values, says) in [
        (json!({"image": {"tagg": "x"}}), "image.tagg: there is no such value here, but "),
        (json!({"replicas": "two"}), "replicas: \"two\" is no integer"),
        (
            json!({"proxies": {"engine": "nginx"}}),
            "proxies.engine: \"nginx\" is none of \"native\", \"envoy\"",
        ),
        (json!({"hostnames": null}), ".Values.hostnames"),
        (json!({"metrics": {"token": {"secretName": "t"}}}), ".metrics.token.secretName needs"),
    ] {
        let refused = Chart::own().render(&release(), &values).unwrap_err().to_string();
        assert!(refused.starts_with(says) || says.starts_with('.'), "{refused}");
    }
}

#[test]
fn the_list_of_files_is_that_of_the_folder() {
    let chart = causeway_testkit::deploy("chart");
    for (path, text) in FILES {
        assert_eq!(std::fs::read_to_string(chart.join(path)).unwrap(), *text, "{path}");
    }
    assert!(FILES.iter().any(|(path, _)| *path == "files/crds/causeway.dev_infras.yaml"));
}
