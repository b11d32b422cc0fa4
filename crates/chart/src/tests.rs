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
fn values_that_are_not_taken_are_named() {
    for (values, says) in [
        (json!({"image": {"tagg": "x"}}), "image.tagg: there is no such value here, but "),
        (json!({"replicas": "two"}), "replicas: \"two\" is no integer"),
        (
            json!({"proxies": {"engine": "nginx"}}),
            "proxies.engine: \"nginx\" is none of \"native\", \"envoy\"",
        ),
        (json!({"hostnames": null}), ".Values.hostnames"),
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
