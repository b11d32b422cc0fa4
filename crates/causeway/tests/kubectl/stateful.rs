//! StatefulSets: names and files that stay, one pod after the other.

use std::collections::BTreeMap;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;
use causeway_testkit::server::Server;

use crate::peer::{need_kubectl, shared};

/// A set of pods that answer HTTP on 8080 of their own addresses; `more` goes into its spec.
fn set(replicas: u32, image: &str, more: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  serviceName: peers
  replicas: {replicas}
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: echo
        image: {image}
        args: [echo, --listen, '$(POD_IP):8080', --name, $(POD_NAME)]
        env:
        - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe: {{tcpSocket: {{port: http}}, periodSeconds: 1}}
        volumeMounts: [{{name: data, mountPath: /data}}]
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
{more}"
    )
}

const ONE: &str = "causeway.dev/causeway:1";
const TWO: &str = "causeway.dev/causeway:2";

fn rolled_out(kubectl: &Kubectl) {
    kubectl.ok(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
}

/// One value of each pod, by name.
fn pods(kubectl: &Kubectl, path: &str) -> BTreeMap<String, String> {
    let columns = format!("jsonpath={{range .items[*]}}{{.metadata.name}}={{{path}}}{{\"\\n\"}}{{end}}");
    let listed = kubectl.ok(&["get", "pods", "-l", "app=db", "-o", &columns]);
    listed
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn images(kubectl: &Kubectl) -> Vec<String> {
    pods(kubectl, ".spec.containers[0].image").into_values().collect()
}

#[test]
fn pods_come_in_order_have_names_and_claims_that_stay_and_go_in_the_opposite_order() {
    let kubectl = shared().namespace("stateful-order");
    let peers = "apiVersion: v1\nkind: Service\nmetadata: {name: peers}\nspec: {clusterIP: None, selector: {app: db}, ports: [{port: 8080}]}\n";
    kubectl.apply(&format!("{peers}---\n{}", set(3, ONE, ""))).ok();
    rolled_out(&kubectl);
    let ready = ".status.conditions[?(@.type==\"Ready\")].lastTransitionTime";
    let (ready, made) = (pods(&kubectl, ready), pods(&kubectl, ".metadata.creationTimestamp"));
    assert_eq!(ready.keys().collect::<Vec<_>>(), ["db-0", "db-1", "db-2"]);
    assert!(made["db-1"] >= ready["db-0"] && made["db-2"] >= ready["db-1"], "{made:?} {ready:?}");
    assert_eq!(kubectl.value("pod/db-2", ".metadata.labels.apps\\.kubernetes\\.io/pod-index"), "2");
    assert_eq!(kubectl.value("pod/db-2", ".metadata.labels.statefulset\\.kubernetes\\.io/pod-name"), "db-2");
    assert_eq!(kubectl.value("pod/db-1", ".spec.hostname"), "db-1");
    let volume = ".spec.volumes[?(@.name==\"data\")].persistentVolumeClaim.claimName";
    assert_eq!(pods(&kubectl, volume)["db-1"], "data-db-1");
    let names = kubectl.ok(&["get", "endpointslices", "-o", "jsonpath={.items[*].endpoints[*].hostname}"]);
    assert_eq!(names, "db-0 db-1 db-2", "below the headless Service");
    let status = |field: &str| kubectl.value("statefulset/db", &format!(".status.{field}"));
    assert_eq!(
        (status("readyReplicas"), status("currentReplicas"), status("replicas")),
        ("3".into(), "3".into(), "3".into())
    );
    assert_eq!(status("currentRevision"), status("updateRevision"));
    assert!(kubectl.ok(&["get", "statefulset", "db"]).contains("3/3"));
    assert!(
        kubectl
            .ok(&["describe", "statefulset", "db"])
            .contains("create Claim data-db-2 Pod db-2 in StatefulSet db success")
    );

    // A pod that goes comes back under its name, with its claim.
    let (before, claim) =
        (kubectl.value("pod/db-1", ".metadata.uid"), kubectl.value("pvc/data-db-1", ".metadata.uid"));
    kubectl.ok(&["delete", "pod", "db-1"]);
    eventually("there is another db-1", PATIENCE, || {
        let uid = kubectl
            .run(&["get", "pod", "db-1", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"])
            .stdout;
        !uid.is_empty() && uid != before
    });
    rolled_out(&kubectl);
    assert_eq!(kubectl.value("pvc/data-db-1", ".metadata.uid"), claim);

    kubectl.ok(&["scale", "statefulset/db", "--replicas=1"]);
    eventually("the last ones are gone", PATIENCE, || pods(&kubectl, ".metadata.name").len() == 1);
    let deleted = kubectl.ok(&["events", "--for=statefulset/db"]);
    let place = |text: &str| deleted.find(text).unwrap_or_else(|| panic!("{text} is not in {deleted}"));
    assert!(place("delete Pod db-2 in") < place("delete Pod db-1 in"));
    assert_eq!(kubectl.ok(&["get", "pvc", "-o", "name"]).lines().count(), 3, "claims are kept");
    kubectl.ok(&["scale", "statefulset/db", "--replicas=2"]);
    rolled_out(&kubectl);
    assert_eq!(kubectl.value("pvc/data-db-1", ".metadata.uid"), claim);

    kubectl.ok(&["delete", "statefulset", "db"]);
    eventually("its pods are gone", PATIENCE, || pods(&kubectl, ".metadata.name").is_empty());
    eventually("and its revisions", PATIENCE, || {
        kubectl.ok(&["get", "controllerrevisions", "-o", "name"]).is_empty()
    });
    assert_eq!(kubectl.ok(&["get", "pvc", "-o", "name"]).lines().count(), 3);
}

#[test]
fn rollouts_are_partitioned_undone_and_restarted() {
    let kubectl = shared().namespace("stateful-rollout");
    kubectl.apply(&set(3, ONE, "")).ok();
    rolled_out(&kubectl);
    let partition = |at: u32| {
        let patch =
            format!("{{\"spec\": {{\"updateStrategy\": {{\"rollingUpdate\": {{\"partition\": {at}}}}}}}}}");
        kubectl.ok(&["patch", "statefulset", "db", "-p", &patch]);
    };
    partition(2);
    kubectl.ok(&["set", "image", "statefulset/db", &format!("echo={TWO}")]);
    let said = kubectl.ok(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
    assert!(said.contains("partitioned roll out complete: 1 new pods have been updated"), "{said}");
    assert_eq!(images(&kubectl), [ONE, ONE, TWO]);
    // One below the partition comes back as it was.
    kubectl.ok(&["delete", "pod", "db-0"]);
    eventually("db-0 is back", PATIENCE, || {
        kubectl.value("statefulset/db", ".status.readyReplicas") == "3" && images(&kubectl).len() == 3
    });
    assert_eq!(images(&kubectl), [ONE, ONE, TWO]);
    partition(0);
    rolled_out(&kubectl);
    assert_eq!(images(&kubectl), [TWO; 3]);
    let history = kubectl.ok(&["rollout", "history", "statefulset/db"]);
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    let first = kubectl.ok(&["rollout", "history", "statefulset/db", "--revision=1"]);
    assert!(first.contains(&format!("Image:\t{ONE}")), "{first}");
    let revisions = kubectl.ok(&["get", "controllerrevisions"]);
    assert!(revisions.contains("statefulset.apps/db"), "{revisions}");

    assert_eq!(kubectl.ok(&["rollout", "undo", "statefulset/db"]), "statefulset.apps/db rolled back\n");
    rolled_out(&kubectl);
    assert_eq!(images(&kubectl), [ONE; 3]);
    let numbers = kubectl.ok(&["get", "controllerrevisions", "-o", "jsonpath={.items[*].revision}"]);
    assert!(numbers.contains('3') && !numbers.contains('1'), "the first one is the newest now: {numbers}");

    let before = pods(&kubectl, ".metadata.uid");
    assert_eq!(kubectl.ok(&["rollout", "restart", "statefulset/db"]), "statefulset.apps/db restarted\n");
    rolled_out(&kubectl);
    let after = pods(&kubectl, ".metadata.uid");
    assert!(
        before.iter().all(|(name, uid)| after.get(name).is_some_and(|now| now != uid)),
        "{before:?} {after:?}"
    );

    kubectl.ok(&[
        "patch",
        "statefulset",
        "db",
        "--type=merge",
        "-p",
        "{\"spec\": {\"updateStrategy\": {\"type\": \"OnDelete\", \"rollingUpdate\": null}}}",
    ]);
    kubectl.ok(&["set", "image", "statefulset/db", &format!("echo={TWO}")]);
    kubectl.ok(&["wait", "statefulset/db", "--for=jsonpath={.status.updatedReplicas}=0", "--timeout=60s"]);
    assert_eq!(images(&kubectl), [ONE; 3]);
    kubectl.ok(&["delete", "pod", "db-1"]);
    eventually("what is deleted comes back new", PATIENCE, || images(&kubectl) == [ONE, TWO, ONE]);
}

#[test]
fn in_parallel_and_from_another_ordinal_on_with_claims_that_go() {
    let kubectl = shared().namespace("stateful-parallel");
    let more = "  podManagementPolicy: Parallel\n  ordinals: {start: 5}\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}\n";
    kubectl.apply(&set(3, ONE, more)).ok();
    rolled_out(&kubectl);
    assert_eq!(pods(&kubectl, ".metadata.name").into_keys().collect::<Vec<_>>(), ["db-5", "db-6", "db-7"]);
    kubectl.ok(&["scale", "statefulset/db", "--replicas=1"]);
    let claims = || kubectl.ok(&["get", "pvc", "-o", "name"]);
    eventually("claims go with the pods that go", PATIENCE, || {
        if claims() == "persistentvolumeclaim/data-db-5\n" { Ok(()) } else { Err(claims()) }
    });
    kubectl.ok(&["scale", "statefulset/db", "--replicas=3"]);
    rolled_out(&kubectl);
    assert_eq!(claims().lines().count(), 3);
    kubectl.ok(&["delete", "statefulset", "db"]);
    eventually("and with the set", PATIENCE, || if claims().is_empty() { Ok(()) } else { Err(claims()) });
}

#[test]
fn a_set_outlives_its_control_plane() {
    need_kubectl();
    let root = tempfile::tempdir().unwrap();
    let args = ["--no-operator"];
    let mut server = Server::start_in(root.path(), &args);
    server.kubectl().apply(&set(2, ONE, "")).ok();
    rolled_out(&server.kubectl());
    let before = pods(&server.kubectl(), ".metadata.uid");
    server.kill();
    let server = Server::start_again_in(root.path(), &args);
    let kubectl = server.kubectl();
    kubectl.ok(&["scale", "statefulset/db", "--replicas=3"]);
    rolled_out(&kubectl);
    let after = pods(&kubectl, ".metadata.uid");
    assert!(before.iter().all(|(name, uid)| after.get(name) == Some(uid)), "no pod was replaced");
    assert_eq!(kubectl.ok(&["get", "controllerrevisions", "-o", "name"]).lines().count(), 1);
}
