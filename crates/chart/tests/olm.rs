//! The bundle as OLM sees it: what `operator-sdk bundle validate` runs, with all of its suites, and the definition of its kind. And
//! that OLM gives the operator what the chart gives it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use causeway_chart::{Chart, Release};
use causeway_testkit::{deploy, environment};
use serde_json::{Value, json};

fn bundle() -> std::path::PathBuf {
    deploy("bundle")
}

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn service_version() -> Value {
    read(&bundle().join("manifests/causeway.clusterserviceversion.yaml"))
}

/// What OLM's rules find in a bundle.
fn findings(program: &Path, bundle: &Path) -> Vec<String> {
    let ran = Command::new(program).arg(bundle).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn olm_accepts_the_bundle() {
    let Some(program) = environment::program("olm") else { return };
    let found = findings(&program, &bundle());
    let is_expected = |line: &String| {
        // Nobody writes these but the operator.
        let is_internal = ["AddressClaim", "GatewayPlan", "Supply"].iter().any(|kind| line.contains(kind));
        let lacks_example = line.contains("provided API should have an example") && is_internal;
        // A guess by the names of resources in rights, which are of no version.
        let guesses = line.contains("were deprecated and removed in v1.25") && !line.contains("Kind");
        line.starts_with("warning: ") && (lacks_example || guesses)
    };
    let (expected, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_expected);
    assert!(others.is_empty(), "{others:#?}");
    assert_eq!(expected.len(), 5, "{expected:#?}");
}

/// The rules do judge: each of these is found.
#[test]
fn olm_refuses_bundles_that_are_not_right() {
    let Some(program) = environment::program("olm") else { return };
    type Spoil = fn(&mut Value);
    let spoilt: [(&str, Spoil); 5] = [
        ("install modes not found", |csv| csv["spec"]["installModes"] = json!([])),
        ("MinKubeVersion has an invalid value", |csv| csv["spec"]["minKubeVersion"] = json!("1.31")),
        ("is present in bundle", |csv| {
            csv["spec"]["customresourcedefinitions"]["owned"].as_array_mut().unwrap().pop();
        }),
        ("unknown field spec.instalModes", |csv| csv["spec"]["instalModes"] = json!([])),
        ("spec.install.strategy", |csv| {
            csv["spec"]["install"].as_object_mut().unwrap().remove("strategy");
        }),
    ];
    for (says, spoil) in spoilt {
        let directory = tempfile::tempdir().unwrap();
        // What begins with a dot is not looked into.
        let spoilt = directory.path().join("bundle");
        let manifests = spoilt.join("manifests");
        fs::create_dir_all(&manifests).unwrap();
        for entry in fs::read_dir(bundle().join("manifests")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, manifests.join(path.file_name().unwrap())).unwrap();
        }
        let mut csv = service_version();
        spoil(&mut csv);
        let text = serde_saphyr::to_string(&csv).unwrap();
        fs::write(manifests.join("causeway.clusterserviceversion.yaml"), text).unwrap();
        let ran = Command::new(&program).arg(&spoilt).output().unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(says), "{says}\n{said}");
    }
}

#[test]
fn the_operator_gets_from_olm_what_the_chart_gives_it() {
    let release = Release {
        name: "causeway".to_owned(),
        namespace: "causeway-system".to_owned(),
        service: "OLM".to_owned(),
    };
    let values = json!({"crds": {"enabled": false}, "openshift": true});
    let chart = Chart::own().render(&release, &values).unwrap();
    let csv = service_version();
    let install = &csv["spec"]["install"]["spec"];
    let deployment = chart.iter().find(|one| one.kind() == "Deployment").unwrap();
    assert_eq!(install["deployments"][0]["spec"], deployment.object["spec"]);
    let rules = |kind: &str, name: &str| -> Vec<Value> {
        let role = chart.iter().find(|one| one.kind() == kind && one.name() == name).unwrap();
        role.object["rules"].as_array().unwrap().clone()
    };
    for (field, kind, roles) in [
        ("clusterPermissions", "ClusterRole", ["causeway-operator", "causeway-operator-openshift"]),
        ("permissions", "Role", ["causeway-operator-connect", "causeway-operator-election"]),
    ] {
        let [permission] = install[field].as_array().unwrap().as_slice() else {
            unreachable!("one account has {field}")
        };
        assert_eq!(permission["serviceAccountName"], "causeway-operator");
        let all: Vec<Value> = roles.iter().flat_map(|role| rules(kind, role)).collect();
        let given = permission["rules"].as_array().unwrap();
        assert_eq!(given.len(), all.len(), "{field}");
        assert!(all.iter().all(|rule| given.contains(rule)), "{field}");
    }
    // All else that the chart makes is either in the bundle or beside it.
    let mut names = BTreeMap::new();
    for entry in fs::read_dir(bundle().join("manifests")).unwrap() {
        let object = read(&entry.unwrap().path());
        names.insert((object["kind"].to_string(), object["metadata"]["name"].to_string()), object);
    }
    let beside = fs::read_to_string(deploy("beside-bundle.yaml")).unwrap();
    let beside: Vec<Value> =
        beside.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let of_olm = ["causeway-operator", "causeway-operator-openshift", "causeway-operator-connect"];
    let of_olm = |name: &str| of_olm.contains(&name) || name == "causeway-operator-election";
    for document in &chart {
        let key = (document.object["kind"].to_string(), document.object["metadata"]["name"].to_string());
        let is_beside = beside.iter().any(|object| {
            let is_it = object["metadata"]["name"] == document.name();
            is_it && object["kind"] == document.kind() && object["spec"] == document.object["spec"]
        });
        let is_made_by_olm = of_olm(document.name()) && document.kind() != "PodDisruptionBudget";
        assert!(names.contains_key(&key) || is_beside || is_made_by_olm, "{key:?}");
    }
}

#[test]
fn the_bundles_image_says_of_it_what_its_annotations_say() {
    let annotations = read(&bundle().join("metadata/annotations.yaml"));
    let annotations = annotations["annotations"].as_object().unwrap();
    let dockerfile = fs::read_to_string(deploy("bundle.Dockerfile")).unwrap();
    for (key, value) in annotations {
        let label = format!("LABEL {key}={}\n", value.as_str().unwrap());
        assert!(dockerfile.contains(&label), "{label}");
    }
    let prefix = "operators.operatorframework.io.bundle.";
    for (key, value) in [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", "causeway"),
    ] {
        assert_eq!(annotations[&format!("{prefix}{key}")], value);
    }
    let channels = annotations[&format!("{prefix}channels.v1")].as_str().unwrap();
    assert!(channels.split(',').any(|one| annotations[&format!("{prefix}channel.default.v1")] == one));
}
