//! By Causeway's own commands: from nothing to nothing.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use causeway_testkit::blocking::eventually;
use causeway_testkit::deploy;
use causeway_testkit::kubectl::finish;
use serde_json::{Value, json};

use crate::bed::{Bed, IMAGE, NAMESPACE, PATIENCE, proxy_server};

const OPERATOR: &str = "deployment/causeway-operator";

#[test]
fn a_fresh_cluster_gets_it_and_is_as_it_was_when_it_goes() {
    let Some(bed) = Bed::new() else { return };
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    let before = bed.causeway(&["check", "--pre"]).ok();
    assert!(before.contains("nothing fails") || before.contains("all is as it should be"), "{before}");
    bed.install();
    println!("{} objects more", bed.objects());
    let check: Value = serde_json::from_str(&bed.causeway(&["check", "-o", "json"]).ok()).unwrap();
    assert_ne!(check["result"], "fail", "{check}");
    bed.gateway("life");

    // The same again changes nothing; other values take away what they no longer ask for.
    let again = bed.causeway(&["install", "--set", "proxies.engine=native", "-o", "json"]).ok();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((&again["created"], &again["changed"]), (&json!(0), &json!(0)), "{again}");
    kubectl.ok(&["create", "secret", "generic", "metrics-token", "--from-literal=token=open-sesame"]);
    let values =
        "proxies.engine=native,replicas=1,metrics.tls.enabled=true,metrics.token.secretName=metrics-token";
    let fewer = bed.causeway(&["install", "--set", values]).ok();
    assert!(fewer.contains("removed PodDisruptionBudget causeway-system/causeway-operator"), "{fewer}");
    metrics_ask_for_their_token(&bed);

    // What does not start is taken back, and what ran goes on.
    let ran =
        bed.causeway(&["install", "--set", "proxies.engine=native,image.tag=nowhere", "--timeout", "60"]);
    let said = ran.fails();
    assert!(said.contains("nowhere can't be had") && said.contains("taken back"), "{said}");
    assert_eq!(kubectl.value(OPERATOR, ".spec.template.spec.containers[0].image"), IMAGE);
    assert_eq!(kubectl.value(OPERATOR, ".spec.replicas"), "1");
    eventually("one pod is there and ready", PATIENCE, || {
        let status = kubectl.value(OPERATOR, ".status");
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        if status["readyReplicas"] == 1 && status["replicas"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });

    // What is broken is mended by the next installation, though nothing of the old one starts.
    kubectl.ok(&["set", "image", OPERATOR, "operator=nowhere.invalid/causeway:1"]);
    eventually("the broken one does not start", PATIENCE, || {
        let ran = bed.causeway(&["check"]);
        if ran.stdout.contains("its image nowhere.invalid/causeway:1 can't be had") {
            Ok(())
        } else {
            Err(ran.to_string())
        }
    });
    bed.install();
    assert_eq!(kubectl.value(OPERATOR, ".spec.template.spec.containers[0].image"), IMAGE);
    kubectl.ok(&["delete", "secret/metrics-token"]);

    // A Gateway is somebody's; who goes on nevertheless is told of it.
    let refused = bed.causeway(&["uninstall", "--yes"]).fails();
    assert!(refused.contains("Gateways of class causeway") && refused.contains("life/front"), "{refused}");
    bed.kubectl.ok(&["delete", "namespace", "life", "--timeout=120s"]);
    bed.uninstall();
}

/// By TLS, by which the kubelet asks, too: else the pod would not be ready.
fn metrics_ask_for_their_token(bed: &Bed) {
    let pods = ["get", "pods", "-n", NAMESPACE, "-l", "app=causeway-operator", "-o"];
    let address = "jsonpath={.items[?(@.status.containerStatuses[0].ready==true)].status.podIP}";
    let address = eventually("the pods of before are gone", PATIENCE, || {
        let addresses = bed.kubectl.ok(&[&pods[..], &[address]].concat());
        if addresses.split_whitespace().count() == 1 { Ok(addresses) } else { Err(addresses) }
    });
    let status = |path: &str, token: &str| {
        let mut curl = bed.cluster.on_node("curl");
        curl.args(["-sk", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args(["-H", &format!("Authorization: Bearer {token}")]);
        finish(curl.arg(format!("https://{address}:8081{path}"))).ok()
    };
    assert_eq!(status("/metrics", "open-sesame"), "200");
    assert_eq!(status("/metrics", "guessed"), "401");
    assert_eq!(status("/healthz", "guessed"), "200");
}

/// A server of the Kubernetes API that knows its version and nothing else; a kubeconfig for it, and what it was asked.
fn old_cluster(files: &Path) -> (PathBuf, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server}}], "users": [{"name": "x", "user": {}}],
    });
    let kubeconfig = files.join("old");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head: Vec<String> = BufReader::new(&stream)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let Some(request) = head.first() else { continue };
            noted.lock().unwrap().push(request.clone());
            let (status, body) = if request.starts_with("GET /version ") {
                ("200 OK", json!({"major": "1", "minor": "30", "gitVersion": "v1.30.9"}))
            } else {
                let failure =
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
                ("404 Not Found", failure)
            };
            let body = body.to_string();
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
            // Who asked may be gone.
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    (kubeconfig, asked)
}

#[test]
fn a_cluster_that_is_too_old_is_left_as_it_is() {
    let files = tempfile::tempdir().unwrap();
    let (kubeconfig, asked) = old_cluster(files.path());
    for args in [&["check", "--pre"][..], &["install"]] {
        let ran = Bed::causeway_as(&kubeconfig, args);
        assert_ne!(ran.code, Some(0), "{ran}");
        let says = "the API server is v1.30.9: Causeway needs 1.31 or newer";
        assert!(ran.stdout.contains(says), "{ran}");
        assert_eq!(ran.stderr.contains("nothing was changed"), args[0] == "install", "{ran}");
    }
    let asked = asked.lock().unwrap();
    assert!(!asked.is_empty() && asked.iter().all(|request| request.starts_with("GET ")), "{asked:?}");
}

#[test]
fn what_is_somebody_elses_stays_his() {
    let Some(bed) = Bed::new() else { return };
    let admin = &bed.kubectl;
    let labels = |namespace: &str| admin.value(&format!("namespace/{namespace}"), ".metadata.labels");
    // Namespaces that are there already, with what somebody has in one of them.
    let edge = bed.cluster.namespace("causeway-edge");
    bed.cluster.namespace(NAMESPACE);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "somebodys"}});
    edge.apply(&config.to_string()).ok();
    // And the roles of tenants, whose operators may come.
    let tenants = deploy("tenants.yaml").display().to_string();
    admin.ok(&["apply", "--server-side", "-f", &tenants]);
    let before = [NAMESPACE, "causeway-edge"].map(labels);
    bed.install();
    assert_eq!([NAMESPACE, "causeway-edge"].map(labels), before);

    // Another namespace than the operator's: nothing of it is touched, with and without force.
    for force in [&[][..], &["--force"]] {
        let args = [&["uninstall", "--all", "--yes", "--namespace", "default"], force].concat();
        let refused = bed.causeway(&args).fails();
        assert!(refused.contains("an operator is at work in namespace causeway-system"), "{refused}");
    }
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    kubectl.ok(&["scale", OPERATOR, "--replicas=0"]);
    eventually("no operator is ready", PATIENCE, || {
        let ready = kubectl.value(OPERATOR, ".status.readyReplicas");
        if ready.is_empty() { Ok(()) } else { Err(ready) }
    });
    let shown = bed.causeway(&["uninstall", "--all", "--namespace", "default"]).ok();
    assert!(
        !shown.contains("ClusterRole causeway-operator") && !shown.contains("Namespace causeway"),
        "{shown}"
    );

    kubectl.ok(&["scale", OPERATOR, "--replicas=2"]);
    kubectl.ok(&["rollout", "status", OPERATOR, "--timeout=90s"]);
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).ok();
    assert!(done.contains("Namespace causeway-edge: it was not made by"), "{done}");
    edge.ok(&["get", "configmap", "somebodys"]);
    assert!(
        done.contains("ClusterRole causeway:tenants:install-operators: it is of deploy/tenants.yaml"),
        "{done}"
    );
    // All of them are there.
    admin.ok(&["get", "-f", &tenants]);
    admin.ok(&["delete", "-f", &tenants]);
    admin.ok(&["delete", "namespace", NAMESPACE, "causeway-edge", "--timeout=120s"]);
    bed.is_as_before();
}

#[test]
fn what_fails_at_first_leaves_nothing() {
    let Some(bed) = Bed::new() else { return };
    for (set, says) in [
        ("image.repository=nowhere.invalid/causeway,image.pullPolicy=Never", "can't be had"),
        ("metrics.serviceMonitor.enabled=true", "does not know this kind"),
        ("replica=1", "there is no such value here"),
        ("resources.requests.cpu=lots", "quantities must match"),
        ("priorityClassName=nobodys", "nobodys"),
    ] {
        let said = bed.causeway(&["install", "--set", set, "--timeout", "20"]);
        assert_ne!(said.code, Some(0), "{set}: {said}");
        assert!(format!("{}{}", said.stdout, said.stderr).contains(says), "{set}: {said}");
        bed.is_as_before();
    }
}

#[test]
fn whoever_interrupts_it_gets_back_what_was_there() {
    let Some(bed) = Bed::new() else { return };
    // Nowhere is room for the operator, which may change.
    let mut install = bed.command(&["install", "--set", "nodeSelector.nowhere=here"]);
    let install = install.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    eventually("it waits for the operator", PATIENCE, || {
        let ran = kubectl.run(&["get", OPERATOR]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "somebodys"}});
    kubectl.apply(&map.to_string()).ok();
    finish(Command::new("kill").args(["-INT", &install.id().to_string()])).ok();
    let output = install.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("it was interrupted"), "{said}");
    assert!(said.contains("Namespace causeway-system, where somebody has put ConfigMap somebodys"), "{said}");
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "--timeout=60s"]);
    bed.is_as_before();
}

#[test]
fn whoever_removed_the_operator_first_gets_rid_of_the_rest() {
    let Some(bed) = Bed::new() else { return };
    bed.install();
    let kubectl = bed.cluster.namespace("alone");
    // As one that has rights in other namespaces, which the operator takes back.
    let mut first = proxy_server("alone", "first");
    first["metadata"]["finalizers"] = json!(["causeway.dev/proxy"]);
    kubectl.apply(&first.to_string()).ok();
    let refused = bed.causeway(&["uninstall", "--all", "--force", "--yes"]).fails();
    assert!(refused.contains("an operator is at work"), "{refused}");

    // Half an uninstall, which the next installation carries on with.
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "--timeout=120s"]);
    let refused = bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).fails();
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert_eq!(kubectl.value("pxs/first", ".metadata.deletionTimestamp"), "");
    kubectl.ok(&["delete", "pxs/first", "--wait=false"]);
    let said = bed.causeway(&["check"]).stdout;
    assert!(
        said.contains("there is no operator") && said.contains("no operator runs that would let go"),
        "{said}"
    );
    bed.install();
    kubectl.ok(&["wait", "--for=delete", "pxs/first", "--timeout=60s"]);

    // Half an uninstall, of which nothing is to stay. What somebody else holds is named, and no definition is left that waits for it.
    let mut held = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "held", "finalizers": ["causeway.dev/routes", "example.com/held"]}, "spec": {},
    });
    kubectl.apply(&held.to_string()).ok();
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "--timeout=120s"]);
    kubectl.ok(&["delete", "gatewayparameters", "--all", "--wait=false"]);
    let args = ["uninstall", "--all", "--crds", "--force", "--yes", "--timeout", "3"];
    let refused = bed.causeway(&args).fails();
    assert!(
        refused.contains("GatewayParameters alone/held (it says nothing, held by example.com/held)"),
        "{refused}"
    );
    assert_eq!(bed.kubectl.value("crd/gatewayparameters.causeway.dev", ".metadata.deletionTimestamp"), "");
    assert_eq!(kubectl.value("gatewayparameters/held", ".metadata.finalizers"), r#"["example.com/held"]"#);
    let let_go = r#"{"metadata": {"finalizers": null}}"#;
    kubectl.ok(&["patch", "gatewayparameters/held", "--type=merge", "-p", let_go]);
    kubectl.ok(&["wait", "--for=delete", "gatewayparameters/held", "--timeout=30s"]);
    held["metadata"]["finalizers"] = json!(["causeway.dev/routes"]);
    kubectl.apply(&held.to_string()).ok();
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--force", "--yes"]).ok();
    assert!(done.contains("removed, but for what is left") && done.contains("alone/"), "{done}");
    bed.kubectl.ok(&["delete", "namespace", "alone", "--timeout=60s"]);
    bed.is_as_before();
}

#[test]
fn what_is_made_again_all_the_time_holds_nothing_up() {
    let Some(bed) = Bed::new() else { return };
    bed.install();
    let kubectl = bed.cluster.namespace("synced");
    let file = bed.files.path().join("synced.json");
    fs::write(&file, proxy_server("synced", "again").to_string()).unwrap();
    kubectl.ok(&["apply", "-f", file.to_str().unwrap()]);
    let script =
        format!("while kubectl -n synced get ns; do kubectl -n synced apply -f {}; done", file.display());
    let mut sync = Command::new("sh");
    sync.args(["-c", &script]).env("KUBECONFIG", bed.cluster.kubeconfig()).env("HOME", bed.files.path());
    let mut sync = sync.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "somebodys"}});
    let system = bed.cluster.kubectl(NAMESPACE);
    system.apply(&map.to_string()).ok();
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--yes", "--timeout", "90"]);
    sync.kill().unwrap();
    sync.wait().unwrap();
    let done = done.ok();
    let kept = "Namespace causeway-system: in it is what is not Causeway's: ConfigMap somebodys";
    assert!(done.contains(kept), "{done}");
    system.ok(&["get", "configmap/somebodys"]);
    bed.kubectl.ok(&["delete", "namespace", "synced", NAMESPACE, "--timeout=60s"]);
    bed.is_as_before();
}

#[test]
fn values_come_from_files_and_options() {
    let files = tempfile::tempdir().unwrap();
    let values = files.path().join("values.yaml");
    fs::write(
        &values,
        "replicas: 3\nimage: {repository: reg.example.com/causeway}\nproxies: {engine: envoy}\n",
    )
    .unwrap();
    let values = values.to_str().unwrap();
    // There is no cluster, and none is asked.
    let nowhere = files.path().join("nowhere");
    let shown = |more: &[&str]| {
        let args =
            ["install", "--dry-run", "--values", values, "--set", "proxies.engine=native", "--openshift"];
        Bed::causeway_as(&nowhere, &[&args, more].concat()).ok()
    };
    let list: Value = serde_json::from_str(&shown(&["-o", "json"])).unwrap();
    let items = list["items"].as_array().unwrap();
    let operator = items.iter().find(|one| one["kind"] == "Deployment").unwrap();
    assert_eq!(operator["spec"]["replicas"], 3);
    let container = &operator["spec"]["template"]["spec"]["containers"][0];
    assert!(container["image"].as_str().unwrap().starts_with("reg.example.com/causeway:"), "{container}");
    for arg in ["--openshift", "--default-engine=native"] {
        assert!(container["args"].as_array().unwrap().contains(&json!(arg)), "{container}");
    }
    assert!(items.iter().any(|one| one["metadata"]["name"] == "causeway-operator-openshift"));
    // What people keep of it is the same.
    let text = shown(&[]);
    assert_eq!(text.split("\n---\n").count(), items.len());
    let missing = Bed::causeway_as(&nowhere, &["install", "--dry-run", "--values", "/nowhere.yaml"]).fails();
    assert!(missing.contains("/nowhere.yaml"), "{missing}");
}
