//! A developer's machine beside a real Kubernetes: a process on it sees the cluster as a pod does, by every way. The machine is
//! the first node's network, seen from outside of all pods.

use std::process::{Command, Stdio};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::kubernetes::Kubernetes;
use causeway_testkit::server::program;
use serde_json::Value;

use crate::world::{PATIENCE, World, cluster};

struct Machine {
    namespace: String,
    home: tempfile::TempDir,
}

impl Machine {
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
    let machine = Machine { namespace: world.kubectl.namespace.clone(), home: tempfile::tempdir().unwrap() };
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
