//! `kubectl apply`, by the client and by the server.

use crate::harness::server::shared;

const SETTINGS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}";

#[test]
fn says_created_unchanged_and_configured() {
    let kubectl = shared().namespace("apply-client");
    assert_eq!(kubectl.apply(SETTINGS).ok(), "configmap/settings created\n");
    assert_eq!(kubectl.apply(SETTINGS).ok(), "configmap/settings unchanged\n");
    let version = kubectl.value("configmap/settings", ".metadata.resourceVersion");
    assert_eq!(kubectl.apply(&SETTINGS.replace("blue", "red")).ok(), "configmap/settings configured\n");
    assert_eq!(kubectl.value("configmap/settings", ".data.colour"), "red");
    assert_ne!(kubectl.value("configmap/settings", ".metadata.resourceVersion"), version);
}

#[test]
fn server_side_conflicts_name_the_other_manager() {
    let kubectl = shared().namespace("apply-server");
    let apply = |colour: &str, more: &[&str]| {
        let mut args = vec!["apply", "--server-side", "-f", "-"];
        args.extend(more);
        kubectl.with_input(&SETTINGS.replace("blue", colour), &args)
    };
    assert_eq!(apply("blue", &["--field-manager=first"]).ok(), "configmap/settings serverside-applied\n");
    let refused = apply("red", &["--field-manager=second"]).fails();
    assert!(refused.contains(r#"conflict with "first": .data.colour"#), "{refused}");
    assert!(refused.contains("--force-conflicts"), "{refused}");
    apply("red", &["--field-manager=second", "--force-conflicts"]).ok();
    assert_eq!(kubectl.value("configmap/settings", ".data.colour"), "red");
    let managers = kubectl.ok(&[
        "get",
        "configmap/settings",
        "--show-managed-fields",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    ]);
    assert!(managers.contains("second"), "{managers}");
}

#[test]
fn a_field_that_is_no_longer_applied_goes_away() {
    let kubectl = shared().namespace("apply-removal");
    let two = "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}, data: {a: '1', b: '2'}}";
    let one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}, data: {a: '1'}}";
    for how in [&["apply", "--server-side", "-f", "-"][..], &["apply", "-f", "-"]] {
        kubectl.with_input(two, how).ok();
        kubectl.with_input(one, how).ok();
        assert_eq!(kubectl.value("configmap/two", ".data"), r#"{"a":"1"}"#, "{how:?}");
        kubectl.ok(&["delete", "configmap", "two"]);
    }
}
