//! `kubectl rollout`.

use crate::objects::deployment;
use crate::peer::shared;

#[test]
fn status_history_undo_restart_pause_and_resume() {
    let kubectl = shared().namespace("rollout");
    kubectl.apply(&deployment("web", 2)).ok();
    let rollout = |args: &[&str]| {
        let mut all = vec!["rollout"];
        all.extend(args);
        all.push("deployment/web");
        kubectl.ok(&all)
    };
    let settled = || {
        let said = rollout(&["status", "--timeout=60s"]);
        assert!(said.ends_with("deployment \"web\" successfully rolled out\n"), "{said}");
    };
    let image = || kubectl.value("deployment/web", ".spec.template.spec.containers[0].image");
    settled();
    let managers = "jsonpath={.metadata.managedFields[*].manager}";
    let managers = kubectl.ok(&["get", "deployment/web", "--show-managed-fields", "-o", managers]);
    assert!(managers.contains("kubectl-client-side-apply") && managers.contains("causeway"), "{managers}");
    assert!(!managers.contains("unknown"), "every writer has a name: {managers}");
    kubectl.ok(&["set", "image", "deployment/web", "echo=causeway.dev/causeway:2"]);
    settled();
    let pods = ".items[*].spec.containers[0].image";
    let images = kubectl.ok(&[
        "get",
        "pods",
        "--field-selector=status.phase=Running",
        "-l",
        "app=web",
        "-o",
        &format!("jsonpath={{{pods}}}"),
    ]);
    assert!(images.contains("causeway.dev/causeway:2"), "{images}");
    let history = rollout(&["history"]);
    assert!(
        history.contains("REVISION") && history.contains("\n1 ") && history.contains("\n2 "),
        "{history}"
    );
    let second = rollout(&["history", "--revision=2"]);
    assert!(second.contains("Image:\tcauseway.dev/causeway:2"), "{second}");
    assert_eq!(rollout(&["undo"]), "deployment.apps/web rolled back\n");
    assert_eq!(image(), "causeway.dev/causeway:1");
    settled();

    assert_eq!(rollout(&["restart"]), "deployment.apps/web restarted\n");
    let stamp = ".spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt";
    assert_ne!(kubectl.value("deployment/web", stamp), "");
    settled();

    assert_eq!(rollout(&["pause"]), "deployment.apps/web paused\n");
    let before = kubectl.ok(&["get", "replicasets", "-o", "name"]);
    kubectl.ok(&["set", "image", "deployment/web", "echo=causeway.dev/causeway:3"]);
    kubectl.ok(&[
        "wait",
        "--for=jsonpath={.status.conditions[?(@.type=='Progressing')].reason}=DeploymentPaused",
        "deployment/web",
        "--timeout=60s",
    ]);
    assert_eq!(
        kubectl.ok(&["get", "replicasets", "-o", "name"]),
        before,
        "a paused Deployment makes nothing new"
    );
    assert_eq!(rollout(&["resume"]), "deployment.apps/web resumed\n");
    settled();
    assert_ne!(kubectl.ok(&["get", "replicasets", "-o", "name"]), before);
    kubectl.ok(&["scale", "deployment/web", "--replicas=0"]);
    settled();
}
