//! A developer's machine beside a real Kubernetes: a process on it sees the cluster as a pod does, by every way. The machine is
//! the first node's network, seen from outside of all pods.

#[path = "../laptop/image.rs"]
mod image;

use std::process::{Command, Stdio};

use causeway_testkit::blocking::eventually;
use causeway_testkit::daemon::{Daemon, Testbed};
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::kubernetes::Kubernetes;
use causeway_testkit::server::program;
use serde_json::{Value, json};

use self::image::{containers, image};
use crate::world::{IMAGE, PATIENCE, World, cluster};

struct Machine {
    namespace: String,
    home: tempfile::TempDir,
}

impl Machine {
    fn new(world: &World) -> Self {
        Self { namespace: world.kubectl.namespace.clone(), home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = cluster().unwrap().on_node(program());
        let (first, rest) = args.split_first().unwrap();
        command.args([first, "--namespace", &self.namespace]).args(rest);
        command.env("KUBECONFIG", Kubernetes::kubeconfig(cluster().unwrap()));
        command.env("CAUSEWAY_DATA_DIR", self.home.path()).env("HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    fn causeway(&self, args: &[&str]) -> Ran {
        finish(&mut self.command(args))
    }

    fn sh(&self, script: &str) -> Ran {
        self.causeway(&["run", "--quiet", "--network", "own", "--", "sh", "-c", script])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.causeway(&["disconnect", "--all", "--force"]);
    }
}

#[test]
fn a_process_sees_services_pods_and_names_by_every_way() {
    let Some(world) = World::new("laptop") else { return };
    world.http_server("web");
    let headless = "apiVersion: v1\nkind: Service\nmetadata: {name: headless}\nspec: {clusterIP: None, selector: {app: web}, ports: [{port: 8080}]}\n";
    world.kubectl.apply(headless).ok();
    let machine = Machine::new(&world);
    let service = world.kubectl.value("service/web", ".spec.clusterIP");
    for (flag, way) in [("wireguard", "WireGuard"), ("port-forward", "PortForward"), ("link", "Link")] {
        let answer = machine.causeway(&["connect", "--name", "machine", "--way", flag, "-o", "json"]).ok();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["way"], way, "{answer}");
        let full = format!("web.{}.svc.cluster.local", machine.namespace);
        for host in ["web", &full, &service, "headless:8080"] {
            eventually("it answers", PATIENCE, || {
                let ran = machine.sh(&format!("curl -sS --max-time 5 http://{host}/"));
                if ran.stdout.contains("web") { Ok(()) } else { Err(format!("{way} {host}: {ran}")) }
            });
        }
    }
    // Datagrams: the cluster's own resolver, by its address.
    let dns = world.kubectl.ok(&[
        "get",
        "service/kube-dns",
        "-n",
        "kube-system",
        "-o",
        "jsonpath={.spec.clusterIP}",
    ]);
    let asked = machine.sh(&format!("dig +short +time=5 @{dns} web.{}.svc.cluster.local", machine.namespace));
    assert_eq!(asked.stdout.trim(), service, "{asked}");
    // Neither nodes nor the API server's own machine are reached through it, whatever a laptop asks for.
    let node = world.kubectl.ok(&[
        "get",
        "nodes",
        "-o",
        "jsonpath={.items[0].status.addresses[?(@.type==\"InternalIP\")].address}",
    ]);
    let reach = format!("{node}/32");
    let refused = machine.causeway(&[
        "run",
        "--quiet",
        "--network",
        "own",
        "--reach",
        &reach,
        "--",
        "sh",
        "-c",
        &format!("curl -sk --max-time 5 https://{node}:10250/ || echo code $?"),
    ]);
    assert!(refused.stdout.contains("code 7"), "{refused}");
    let env = machine.causeway(&["env", "deploy/web"]);
    assert!(env.code == Some(0) && env.stdout.contains(&format!("WEB_SERVICE_HOST={service}")), "{env}");
    machine.causeway(&["disconnect"]).ok();
    assert_eq!(
        std::fs::read_dir(machine.home.path())
            .unwrap()
            .filter(|entry| { entry.as_ref().is_ok_and(|entry| entry.file_name() == "connections") })
            .count(),
        0
    );
}

#[test]
fn a_command_has_the_environment_and_the_files_of_a_workload() {
    let Some(world) = World::new("files") else { return };
    let container = json!({
        "name": "web", "image": IMAGE, "imagePullPolicy": "Never",
        "args": ["echo", "--listen", "0.0.0.0:8080", "--name", "web"], "ports": [{"containerPort": 8080}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        "envFrom": [{"configMapRef": {"name": "web"}}],
        "volumeMounts": [{"name": "conf", "mountPath": "/etc/web"}, {"name": "keys", "mountPath": "/etc/keys"}],
    });
    let volumes = json!([{"name": "conf", "configMap": {"name": "web"}}, {"name": "keys", "secret": {"secretName": "web"}}]);
    for object in [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"GREETING": "hello"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": {"password": "it's secret"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "volumes": volumes},
            },
        }}),
    ] {
        world.kubectl.apply(&object.to_string()).ok();
    }
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let machine = Machine::new(&world);
    machine.causeway(&["connect", "--name", "machine", "--way", "link"]).ok();
    let to = tempfile::tempdir().unwrap();
    let path = |name: &str| to.path().join(name).display().to_string();
    for (from, name, text) in
        [("/etc/web", "web/GREETING", "hello"), ("/etc/keys/password", "password", "it's secret")]
    {
        machine.causeway(&["files", "deploy/web", from, "--to", to.path().to_str().unwrap()]).ok();
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), text);
    }
    let asked =
        ["intercept", "deploy/web", "--port", "13091:8080", "--header", "x-user=machine", "--env-file"];
    let command = ["--", "sh", "-c", "echo $GREETING; curl -s --max-time 5 http://web/ | head -1"];
    let file = path("web.env");
    let ran = machine.causeway(&[&asked[..], &[file.as_str()], &command[..]].concat());
    assert!(ran.code == Some(0) && ran.stdout.ends_with("hello\nweb\n"), "{ran}");
    assert!(std::fs::read_to_string(file).unwrap().contains("GREETING=hello\n"));
    eventually("it was left", PATIENCE, || {
        let left = world.kubectl.ok(&["get", "interceptrequests", "-o", "name"]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[test]
fn a_container_sees_services_by_name() {
    let Some(bed) = Testbed::start(Daemon::Docker) else { return };
    let Some(world) = World::new("container") else { return };
    world.http_server("web");
    let machine = Machine::new(&world);
    machine.causeway(&["connect", "--name", "machine", "--way", "link"]).ok();
    let socket = bed.socket().display().to_string();
    let image = image(&socket);
    let run =
        ["run", "--container", &image, "--container-runtime", &socket, "--container-network", "none", "--"];
    for host in ["web:80", &format!("web.{}.svc.cluster.local:80", machine.namespace)] {
        let ran = machine.causeway(&[&run[..], &["echo", "--check", host]].concat());
        assert_eq!(ran.code, Some(0), "{host}: {ran}");
    }
    eventually("no container is left", PATIENCE, || {
        let ran = containers(Daemon::Docker, &socket);
        if ran.stdout.trim().is_empty() { Ok(()) } else { Err(ran.to_string()) }
    });
}
