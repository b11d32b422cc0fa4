//! Real kubectl sends what its own verbs make as protobuf, and files as JSON: both must store the same object.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use causeway_apiserver::{Server, Storage};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What to read back, and the words that make it.
const MADE: [(&str, &str); 16] = [
    ("namespace/staging", "create namespace staging"),
    ("configmap/settings", "create configmap settings --from-literal=mode=fast --from-literal=empty="),
    ("secret/login", "create secret generic login --from-literal=user=ann --from-literal=password=s3cret"),
    ("secret/registry", "create secret docker-registry registry --docker-username=u --docker-password=p"),
    ("deployment/web", "create deployment web --image=nginx --replicas=0 --port=8080"),
    ("deployment/twin", "create deployment twin --image=nginx -- serve --fast"),
    ("service/plain", "create service clusterip plain --tcp=80:8080 --tcp=443"),
    ("service/headless", "create service clusterip headless --clusterip=None"),
    ("service/named", "create service nodeport named --tcp=5678:http"),
    ("service/elsewhere", "create service externalname elsewhere --external-name=example.com"),
    ("serviceaccount/robot", "create serviceaccount robot"),
    (
        "role/reader",
        "create role reader --verb=get,list --resource=pods,deployments.apps --resource-name=web",
    ),
    (
        "rolebinding/readers",
        "create rolebinding readers --role=reader --serviceaccount=default:robot --group=staff",
    ),
    ("clusterrole/health", "create clusterrole health --verb=get --non-resource-url=/healthz"),
    ("clusterrole/sum", "create clusterrole sum --aggregation-rule=part=sum"),
    ("clusterrolebinding/all", "create clusterrolebinding all --clusterrole=view --user=ann"),
];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_stores_the_same_by_protobuf_and_by_json() {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "kubectl is not on the PATH");
        eprintln!("skipped: kubectl is not on the PATH");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("kubeconfig");
    let stop = CancellationToken::new();
    let server = Server::start(Storage::Memory, stop.clone()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    server.write_kubeconfig(&config, &url).unwrap();
    let serving = tokio::spawn(server.serve(listener, &[]).unwrap());

    tokio::task::spawn_blocking(move || {
        let kubectl = Kubectl(&config);
        for (object, words) in MADE {
            kubectl.compare(object, words);
        }
        kubectl.speaks_protobuf("create serviceaccount caller");
        let token = kubectl.speaks_protobuf("create token caller --duration=20m");
        assert_eq!(token.trim().split('.').count(), 3, "{token}");
        assert_eq!(kubectl.speaks_protobuf("auth can-i create pods").trim(), "yes");
        assert!(kubectl.run("auth whoami", None).contains("system:masters"));
    })
    .await
    .unwrap();

    stop.cancel();
    serving.await.unwrap();
    server.stopped().await;
}

struct Kubectl<'a>(&'a Path);

impl Kubectl<'_> {
    /// Makes one object both ways and compares what is stored.
    fn compare(&self, object: &str, words: &str) {
        // In front, since the words after a bare `--` are the container's.
        let (verb, rest) = words.split_once(' ').unwrap();
        let file = self.run(&format!("{verb} --dry-run=client -o yaml {rest}"), None);
        self.speaks_protobuf(words);
        let by_protobuf = self.stored(object);
        self.run(&format!("delete {object}"), None);
        self.run("create -f -", Some(&file));
        assert_eq!(by_protobuf, self.stored(object), "{words}");
    }

    /// The object without what differs from one creation to the next.
    fn stored(&self, object: &str) -> Value {
        let text = self.run(&format!("get {object} -o json --show-managed-fields"), None);
        let mut object: Value = serde_json::from_str(&text).unwrap();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|name, _| !["uid", "resourceVersion", "creationTimestamp"].contains(&name.as_str()));
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            entry["time"].take();
        }
        let spec = object.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec.filter(|spec| spec.get("clusterIP").is_some_and(|ip| ip != "None")) {
            spec.retain(|name, _| name != "clusterIP" && name != "clusterIPs");
            for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                port["nodePort"].take();
            }
        }
        object
    }

    /// Runs it and makes sure that a body went out as protobuf.
    fn speaks_protobuf(&self, words: &str) -> String {
        let output = self.output(&format!("-v=7 {words}"), None);
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {log}");
        assert!(log.contains("Content-Type: application/vnd.kubernetes.protobuf"), "{words}: {log}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, words: &str, stdin: Option<&str>) -> String {
        let output = self.output(words, stdin);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn output(&self, words: &str, stdin: Option<&str>) -> Output {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.0)
            .args(words.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.unwrap_or_default().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}
