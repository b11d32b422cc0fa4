//! PersistentVolumeClaims: directories that stay when pods go.

use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::server::Server;
use serde_json::json;

use crate::world::PATIENCE;

const CLAIM: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: leases}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
";

#[test]
fn a_claim_keeps_its_files_until_it_is_deleted() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(root.path(), &["--program", "tools/shell=/bin/sh"]);
    let kubectl = server.trusted_namespace("keeps");
    let pod = |name: &str, script: &str| {
        let container = json!({
            "name": "main", "image": "tools/shell", "args": ["-c", script],
            "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        });
        let spec = json!({
            "restartPolicy": "Never", "containers": [container],
            "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "leases"}}],
        });
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).to_string()
    };
    // A pod waits for its claim.
    kubectl.apply(&pod("writer", "echo kept > $CAUSEWAY_ROOT/state/file")).ok();
    eventually("the pod says what it waits for", PATIENCE, || {
        let waiting = ".status.containerStatuses[0].state.waiting.message";
        kubectl.value("pod/writer", waiting).contains(r#"persistentvolumeclaim "leases" not found"#)
    });
    kubectl.apply(CLAIM).ok();
    let ended = |name: &str| {
        eventually(&format!("{name} has ended well"), PATIENCE, || {
            let phase = kubectl.value(&format!("pod/{name}"), ".status.phase");
            if phase == "Succeeded" { Ok(()) } else { Err(kubectl.run(&["describe", "pod", name]).stdout) }
        });
    };
    ended("writer");
    let table = kubectl.ok(&["get", "pvc"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["NAME", "STATUS", "VOLUME", "CAPACITY"], "{table}");
    let volume = format!("pvc-{}", kubectl.value("pvc/leases", ".metadata.uid"));
    assert_eq!(rows[1][..5], ["leases", "Bound", &volume, "64Mi", "RWO"], "{table}");

    // It outlives its pods and the control plane.
    kubectl.ok(&["delete", "pod", "writer"]);
    server.kill();
    let server = Server::start_in(root.path(), &["--program", "tools/shell=/bin/sh"]);
    let claims = server.data_dir().join("node/claims/keeps/leases");
    kubectl.apply(&pod("reader", "grep -q kept $CAUSEWAY_ROOT/state/file && exec sleep 600")).ok();
    kubectl.ok(&["wait", "pod/reader", "--for=condition=Ready", "--timeout=60s"]);
    assert!(claims.exists());

    // It waits for the pod that uses it, and then its files go.
    kubectl.ok(&["delete", "pvc", "leases", "--wait=false"]);
    assert_ne!(kubectl.value("pvc/leases", ".metadata.deletionTimestamp"), "");
    assert!(claims.exists());
    // Something is in the way, as the files of another user are for one who is not root.
    let held = claims.join(kubectl.value("pvc/leases", ".metadata.uid")).join("data/held");
    std::fs::create_dir(&held).unwrap();
    let mount = |program: &str, args: &[&str]| Command::new(program).args(args).arg(&held).output().unwrap();
    let is_held = mount("mount", &["-t", "tmpfs", "none"]).status.success();
    kubectl.ok(&["delete", "pod", "reader", "--grace-period=1"]);
    if is_held {
        eventually("it is said what is in the way", PATIENCE, || {
            let events = kubectl.ok(&["events", "--for", "pvc/leases"]);
            let is_said =
                events.contains("VolumeFailedDelete") && events.contains("node/claims/keeps/leases");
            if is_said { Ok(()) } else { Err(events) }
        });
        assert!(mount("umount", &[]).status.success());
    }
    kubectl.ok(&["wait", "pvc/leases", "--for=delete", "--timeout=60s"]);
    assert!(!claims.exists());
}
