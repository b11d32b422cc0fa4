//! Commands that change an object: patch, edit, replace, label, annotate, set, scale, autoscale.

use crate::objects::{config_map, deployment};
use crate::peer::shared;

#[test]
fn patches_of_each_type() {
    let kubectl = shared().namespace("patch");
    kubectl.apply(&deployment("web", 0)).ok();
    let patch =
        |kind: &str, body: &str| kubectl.run(&["patch", "deployment", "web", "--type", kind, "-p", body]);
    let said = patch(
        "json",
        r#"[{"op": "test", "path": "/spec/replicas", "value": 0}, {"op": "add", "path": "/metadata/labels/x", "value": "y"}]"#,
    );
    assert_eq!(said.ok(), "deployment.apps/web patched\n");
    let test = patch("json", r#"[{"op": "test", "path": "/spec/replicas", "value": 7}]"#).fails();
    assert!(test.starts_with("The request is invalid"), "{test}");
    patch("merge", r#"{"metadata": {"labels": {"x": null, "z": "1"}}}"#).ok();
    assert_eq!(kubectl.value("deployment/web", ".metadata.labels"), r#"{"app":"web","z":"1"}"#);
    let side = r#"{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "causeway.dev/causeway"}]}}}}"#;
    patch("strategic", side).ok();
    let names = ".spec.template.spec.containers[*].name";
    assert_eq!(kubectl.value("deployment/web", names), "side echo", "merged by name, not replaced");
    let gone = r#"{"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}"#;
    patch("strategic", gone).ok();
    assert_eq!(kubectl.value("deployment/web", names), "echo");
    assert_eq!(
        patch("merge", r#"{"metadata": {"labels": {"z": "1"}}}"#).ok(),
        "deployment.apps/web patched (no change)\n"
    );
    let bad = patch("merge", r#"{"spec": {"replicas": -1}}"#).fails();
    assert!(bad.contains("spec.replicas: Invalid value: -1: must be greater than or equal to 0"), "{bad}");
    let infra = kubectl.run(&["patch", "infra", "none", "--type=merge", "-p", "{}"]).fails();
    assert_eq!(infra, "Error from server (NotFound): infras.causeway.dev \"none\" not found\n");
}

#[test]
fn status_and_spec_are_apart() {
    let kubectl = shared().namespace("patch-status");
    kubectl.apply(&deployment("web", 0)).ok();
    let generation = kubectl.value("deployment/web", ".metadata.generation");
    let both = r#"{"spec": {"paused": true}, "status": {"collisionCount": 7}}"#;
    kubectl.ok(&["patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", both]);
    assert_eq!(kubectl.value("deployment/web", ".spec.paused"), "");
    assert_eq!(kubectl.value("deployment/web", ".metadata.generation"), generation);
    kubectl.ok(&["patch", "deployment", "web", "--type=merge", "-p", both]);
    assert_eq!(kubectl.value("deployment/web", ".spec.paused"), "true");
    assert_ne!(kubectl.value("deployment/web", ".metadata.generation"), generation);
}

#[test]
fn edit_saves_what_the_editor_wrote() {
    let kubectl = shared().namespace("edit");
    kubectl.apply(&config_map("settings", "colour: blue")).ok();
    let edit = |editor: &str| {
        causeway_testkit::kubectl::finish(
            kubectl.command(&["edit", "configmap", "settings"]).env("KUBE_EDITOR", editor),
        )
    };
    assert_eq!(edit("sed -i s/blue/green/").ok(), "configmap/settings edited\n");
    assert_eq!(kubectl.value("configmap/settings", ".data.colour"), "green");
    let same = edit("true");
    assert_eq!(same.code, Some(0), "{same}");
    assert!(same.stderr.contains("Edit cancelled, no changes made."), "{same}");
}

#[test]
fn replace_needs_the_current_version() {
    let kubectl = shared().namespace("replace");
    let replace = |input: &str| kubectl.with_input(input, &["replace", "-f", "-"]);
    assert!(replace(&config_map("settings", "a: b")).fails().contains("(NotFound)"));
    kubectl.apply(&config_map("settings", "a: b")).ok();
    let old = kubectl.ok(&["get", "configmap", "settings", "-o", "yaml"]);
    assert_eq!(replace(&config_map("settings", "c: d")).ok(), "configmap/settings replaced\n");
    assert_eq!(kubectl.value("configmap/settings", ".data"), r#"{"c":"d"}"#);
    let stale = replace(&old).fails();
    assert!(stale.contains("(Conflict)") && stale.contains("the object has been modified"), "{stale}");
    let forced = kubectl.with_input(&config_map("settings", "e: f"), &["replace", "--force", "-f", "-"]).ok();
    assert!(forced.contains("configmap/settings replaced"), "{forced}");
}

#[test]
fn labels_and_annotations() {
    let kubectl = shared().namespace("label");
    kubectl.apply(&config_map("settings", "a: b")).ok();
    assert_eq!(kubectl.ok(&["label", "cm", "settings", "tier=web"]), "configmap/settings labeled\n");
    let twice = kubectl.fails(&["label", "cm", "settings", "tier=db"]);
    assert!(twice.contains("already has a value (web), and --overwrite is false"), "{twice}");
    kubectl.ok(&["label", "cm", "settings", "tier=db", "--overwrite"]);
    assert_eq!(kubectl.value("cm/settings", ".metadata.labels.tier"), "db");
    assert_eq!(kubectl.ok(&["label", "cm", "settings", "tier-"]), "configmap/settings unlabeled\n");
    assert_eq!(kubectl.ok(&["annotate", "cm", "settings", "note=x"]), "configmap/settings annotated\n");
    assert_eq!(kubectl.value("cm/settings", ".metadata.annotations.note"), "x");
    let bad = kubectl
        .run(&["patch", "cm", "settings", "--type=merge", "-p", r#"{"metadata": {"labels": {"a b": "c"}}}"#])
        .fails();
    assert!(bad.contains("metadata.labels: Invalid value"), "{bad}");
}

#[test]
fn set_scale_and_autoscale() {
    let kubectl = shared().namespace("scale");
    kubectl.apply(&deployment("web", 0)).ok();
    kubectl.ok(&["set", "image", "deployment/web", "echo=causeway.dev/causeway:2"]);
    assert_eq!(
        kubectl.value("deployment/web", ".spec.template.spec.containers[0].image"),
        "causeway.dev/causeway:2"
    );
    kubectl.ok(&["set", "env", "deployment/web", "A=1"]);
    kubectl.ok(&["set", "resources", "deployment/web", "--limits=cpu=200m"]);
    assert_eq!(kubectl.value("deployment/web", ".spec.template.spec.containers[0].env[0].value"), "1");
    assert_eq!(kubectl.ok(&["scale", "deployment", "web", "--replicas=2"]), "deployment.apps/web scaled\n");
    assert_eq!(kubectl.value("deployment/web", ".spec.replicas"), "2");
    let guarded = kubectl.fails(&["scale", "deployment", "web", "--current-replicas=9", "--replicas=1"]);
    assert!(guarded.contains("Expected replicas to be 9, was 2"), "{guarded}");
    let said = kubectl.ok(&["autoscale", "deployment", "web", "--min=1", "--max=4", "--cpu-percent=70"]);
    assert_eq!(said, "horizontalpodautoscaler.autoscaling/web autoscaled\n");
    let table = kubectl.ok(&["get", "hpa", "web", "--no-headers"]);
    assert!(table.contains("Deployment/web") && table.contains("70%"), "{table}");
}
