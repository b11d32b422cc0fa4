//! `kubectl apply`, by the client and by the server.

use crate::objects::config_map;
use crate::peer::shared;

#[test]
fn says_created_unchanged_and_configured() {
    let kubectl = shared().namespace("apply-client");
    let blue = config_map("settings", "colour: blue");
    assert_eq!(kubectl.apply(&blue).ok(), "configmap/settings created\n");
    assert_eq!(kubectl.apply(&blue).ok(), "configmap/settings unchanged\n");
    let version = kubectl.value("configmap/settings", ".metadata.resourceVersion");
    assert_eq!(kubectl.apply(&config_map("settings", "colour: red")).ok(), "configmap/settings configured\n");
    assert_eq!(kubectl.value("configmap/settings", ".data.colour"), "red");
    assert_ne!(kubectl.value("configmap/settings", ".metadata.resourceVersion"), version);
}

#[test]
fn server_side_conflicts_name_the_other_manager() {
    let kubectl = shared().namespace("apply-server");
    let apply = |colour: &str, more: &[&str]| {
        let mut args = vec!["apply", "--server-side", "-f", "-"];
        args.extend(more);
        kubectl.with_input(&config_map("settings", &format!("colour: {colour}")), &args)
    };
    assert_eq!(apply("blue", &["--field-manager=first"]).ok(), "configmap/settings serverside-applied\n");
    let refused = apply("red", &["--field-manager=second"]).fails();
    assert!(refused.contains(r#"conflict with "first": .data.colour"#), "{refused}");
    assert!(refused.contains("--force-conflicts"), "{refused}");
    apply("red", &["--field-manager=second", "--force-conflicts"]).ok();
    assert_eq!(kubectl.value("configmap/settings", ".data.colour"), "red");
    let path = "jsonpath={.metadata.managedFields[*].manager}";
    let managers = kubectl.ok(&["get", "configmap/settings", "--show-managed-fields", "-o", path]);
    assert_eq!(managers, "second", "who owns nothing more is no longer listed");
}

#[test]
fn a_field_that_is_no_longer_applied_goes_away() {
    let kubectl = shared().namespace("apply-removal");
    for how in [&["apply", "--server-side", "-f", "-"][..], &["apply", "-f", "-"]] {
        kubectl.with_input(&config_map("two", "{a: '1', b: '2'}"), how).ok();
        kubectl.with_input(&config_map("two", "{a: '1'}"), how).ok();
        assert_eq!(kubectl.value("configmap/two", ".data"), r#"{"a":"1"}"#, "{how:?}");
        kubectl.ok(&["delete", "configmap", "two"]);
    }
}

#[test]
fn prune_removes_what_is_no_longer_in_the_set() {
    let kubectl = shared().namespace("apply-prune");
    let labelled = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: one}}}}\ndata: {{a: b}}\n"
        )
    };
    kubectl.apply(&format!("{}---\n{}", labelled("kept"), labelled("dropped"))).ok();
    let prune = ["apply", "-f", "-", "--prune", "-l", "set=one", "--prune-allowlist=core/v1/ConfigMap"];
    let said = kubectl.with_input(&labelled("kept"), &prune).ok();
    assert!(said.contains("configmap/dropped pruned"), "{said}");
    assert_eq!(kubectl.ok(&["get", "configmap", "-l", "set=one", "-o", "name"]), "configmap/kept\n");
}

#[test]
fn dry_run_changes_nothing() {
    let kubectl = shared().namespace("apply-dry");
    let said =
        kubectl.with_input(&config_map("ghost", "a: b"), &["apply", "--dry-run=server", "-f", "-"]).ok();
    assert_eq!(said, "configmap/ghost created (server dry run)\n");
    assert!(kubectl.fails(&["get", "configmap", "ghost"]).contains("(NotFound)"));
}
