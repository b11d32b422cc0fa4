//! The chart as Helm itself sees it: nothing to complain about, and the same objects as ours for many values.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use causeway_chart::{Chart, Release};
use causeway_testkit::{deploy, environment};
use serde_json::{Value, json};

/// By kind, namespace and name.
type Objects = BTreeMap<(String, String, String), Value>;

/// Values with which all of the templates are used, and each switch in both positions.
fn matrix() -> Vec<Value> {
    let full = json!({
        "image": {"repository": "reg.example:5000/causeway", "tag": "9.9", "pullPolicy": "Always", "pullSecrets": [{"name": "reg"}]},
        "replicas": 3, "nodeSelector": {"disk": "ssd"}, "priorityClassName": "high",
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "causeway-operator"}}}},
        ]}},
        "labels": {"team": "net"}, "podLabels": {"scrape": "yes", "number": "007"}, "podAnnotations": {"a/b": "c: d # e"},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
        "namespace": {"create": true, "podSecurity": "baseline"}, "openshift": true,
        "podTemplate": {"labels": {"cost": "42"}, "resources": {"requests": {"cpu": "20m"}}, "tolerations": [{"operator": "Exists"}]},
        "proxies": {"engine": "native", "envoyImage": "reg.example/envoy:1", "allowedImages": ["reg.example/*", "x:1"], "updatePolicy": "manual", "updatesAtOnce": 1, "requireGrants": false},
        "hostnames": {"gatewayNamespace": {"name": "edge"}, "domains": ["a.example", "b.example"], "dns": "aws", "issuer": "acme", "acmeDirectory": "https://acme.example/dir", "awsRegion": "eu-west-1"},
        "workstations": {"entry": "load-balancer", "addresses": ["edge.example"], "network": "100.64.0.0/16", "reach": ["10.0.0.0/8"], "deny": ["10.1.0.0/16"], "group": "", "replicas": 1, "carrierReplicas": 1},
        "metrics": {"service": {"annotations": {"x": "y"}}, "serviceMonitor": {"enabled": true, "labels": {"release": "prom"}}, "podMonitor": {"enabled": true}, "tls": {"enabled": true, "secretName": "metrics"}, "token": {"secretName": "ask"}, "rules": {"enabled": true}, "dashboard": {"enabled": true}},
        "networkPolicy": {"enabled": true, "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
        "log": "debug", "extraArgs": ["--no-other-node-port"], "extraEnv": [{"name": "A", "value": "1"}],
    });
    vec![
        json!({}),
        full,
        json!({"image": {"digest": format!("sha256:{}", "0".repeat(64))}, "replicas": 1, "crds": {"keep": false}}),
        json!({"crds": {"enabled": false}, "rbac": {"aggregate": false}, "hostnames": {"admissionPolicy": false, "gatewayNamespace": {"create": false}}}),
        json!({"metrics": {"service": {"enabled": false}}, "podDisruptionBudget": {"enabled": false}, "topologySpreadConstraints": []}),
        json!({"metrics": {"tls": {"enabled": true}, "serviceMonitor": {"enabled": true}}}),
        json!({"metrics": {"tls": {"secretName": "metrics"}}}),
        json!({"metrics": {"podMonitor": {"enabled": true}}, "namespaces": ["a", "b"], "openshift": true, "rbac": {"tenants": true}, "namespace": {"create": true}}),
        json!({"networkPolicy": {"enabled": true}, "resources": {}, "namespace": {"create": true, "podSecurity": ""}}),
    ]
}

fn helm(program: &Path, directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    // Nothing of the user's own is read or written.
    command.env_clear().env("HOME", directory).args(arguments);
    command.output().unwrap()
}

/// Writes them where Helm reads them.
fn written(directory: &Path, values: &Value) -> String {
    let file = directory.join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    file.display().to_string()
}

fn theirs(text: &str) -> Objects {
    let documents = text.split("\n---\n").map(|text| text.trim_start_matches("---\n"));
    let objects = documents.map(|text| (text, serde_saphyr::from_str::<Value>(text)));
    objects
        .map(|(text, object)| object.unwrap_or_else(|error| panic!("{error}\n{text}")))
        .map(named)
        .collect()
}

/// Helm writes whole numbers without a point, whatever form they had.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64().filter(|float| float.fract() == 0.0) {
            Some(float) => json!(float as i64),
            None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, whole(value))).collect(),
        other => other,
    }
}

fn named(object: Value) -> ((String, String, String), Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let key = (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
    (key, whole(object))
}

#[test]
fn helm_makes_the_same_objects_of_the_chart() {
    let Some(program) = environment::program("helm") else { return };
    let directory = tempfile::tempdir().unwrap();
    let chart = deploy("chart").display().to_string();
    let release =
        Release { name: "edge".to_owned(), namespace: "net".to_owned(), service: "Helm".to_owned() };
    for values in matrix() {
        let file = written(directory.path(), &values);
        let arguments =
            ["template", "edge", &chart, "--namespace", "net", "--values", &file, "--kube-version", "1.36.0"];
        let ran = helm(&program, directory.path(), &arguments);
        assert!(ran.status.success(), "{values}\n{}", String::from_utf8_lossy(&ran.stderr));
        let theirs = theirs(&String::from_utf8(ran.stdout).unwrap());
        let ours = Chart::own().render(&release, &values).unwrap();
        let ours: Objects = ours.into_iter().map(|document| named(document.object)).collect();
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{values}");
        for (key, object) in &ours {
            assert_eq!(object, &theirs[key], "{key:?} with {values}");
        }
    }
}

#[test]
fn helm_has_nothing_to_say_against_the_chart() {
    let Some(program) = environment::program("helm") else { return };
    let directory = tempfile::tempdir().unwrap();
    let chart = deploy("chart").display().to_string();
    for values in matrix() {
        let file = written(directory.path(), &values);
        let ran = helm(&program, directory.path(), &["lint", "--strict", &chart, "--values", &file]);
        assert!(ran.status.success(), "{values}\n{}", String::from_utf8_lossy(&ran.stdout));
    }
    let directory = directory.path();
    let ran =
        helm(&program, directory, &["package", &chart, "--destination", &directory.display().to_string()]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // A release is kept in a Secret, with its objects, and that holds 1 MiB.
    let size = fs::metadata(directory.join("causeway-0.1.0.tgz")).unwrap().len();
    assert!(size < 200_000, "{size} bytes");
    // Who has no network takes the file along: it is the same chart, with the definitions that it has by a link.
    let package = directory.join("causeway-0.1.0.tgz").display().to_string();
    let [folder, file] = [&chart, &package].map(|chart| {
        let ran = helm(&program, directory, &["template", "x", chart, "--kube-version", "1.36.0"]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        theirs(&String::from_utf8(ran.stdout).unwrap())
    });
    assert!(folder == file && file.keys().any(|(kind, ..)| kind == "CustomResourceDefinition"));
}

#[test]
fn helm_and_we_refuse_the_same_values() {
    let Some(program) = environment::program("helm") else { return };
    let directory = tempfile::tempdir().unwrap();
    let chart = deploy("chart").display().to_string();
    for values in [
        json!({"replica": 2}),
        json!({"replicas": "2"}),
        json!({"replicas": 17}),
        json!({"image": {"digest": "sha256:abc"}}),
        json!({"proxies": {"engine": "nginx"}}),
        json!({"workstations": {"reach": ["everything"]}}),
        json!({"labels": {"a": 1}}),
        json!({"namespaces": ["A"]}),
    ] {
        let file = written(directory.path(), &values);
        let arguments = ["template", "x", &chart, "--values", &file, "--kube-version", "1.36.0"];
        let ran = helm(&program, directory.path(), &arguments);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("values don't meet the specifications of the schema"), "{values}\n{said}");
        assert!(Chart::own().values(&values).is_err(), "{values}");
    }
}
