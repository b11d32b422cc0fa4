//! Mode Container on a real cluster: the container is replaced through its workload's template, or by a stand-in, and is what it
//! was afterwards.

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use super::laptop::{Laptop, ask};
use super::nothing_is_left;
use crate::world::{IMAGE, PATIENCE, World};

/// As strict as people have them: its own user, nothing that can be written to, no token, commands and probes of every kind.
fn pod(name: &str) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 4711, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "app", "image": IMAGE, "imagePullPolicy": "Never",
            "command": ["/causeway"], "args": ["echo", "--name", name, "--listen", "0.0.0.0:8080"],
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
            "livenessProbe": {"exec": {"command": ["/causeway", "version"]}, "periodSeconds": 5, "timeoutSeconds": 10},
            "securityContext": {
                "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            },
        }],
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}]},
    })
}

#[test]
fn containers_of_every_kind_of_workload_are_replaced_and_put_back() {
    let Some(world) = World::new("containers") else { return };
    let workload = |kind: &str, name: &str, replicas: u8| {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod(name)},
            },
        })
    };
    let mut deployment = workload("Deployment", "web", 2);
    deployment["spec"].as_object_mut().unwrap().remove("serviceName");
    let bare = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": {"app": "one"}}, "spec": pod("one"),
    });
    for object in [&deployment, &workload("StatefulSet", "db", 2), &bare] {
        world.kubectl.apply(&object.to_string()).ok();
    }
    for name in ["web", "db", "one"] {
        world.kubectl.apply(&service(name).to_string()).ok();
    }
    let laptop = Laptop::new(&world, "lap", 13_011);
    laptop.connect("link");
    for (target, object, name) in [
        ("deploy/web", "deployment/web", "web"),
        ("sts/db", "statefulset/db", "db"),
        ("pod/one", "pod/one", "one"),
    ] {
        let address = world.kubectl.value(&format!("service/{name}"), ".spec.clusterIP");
        let all_by = |wanted: &str| {
            let heard: Vec<_> = (0..5).map(|_| ask(&address, None)).collect();
            if heard.iter().all(|one| one.as_deref() == Ok(wanted)) {
                Ok(())
            } else {
                Err(format!("{heard:?}"))
            }
        };
        eventually("the original answers", PATIENCE, || all_by(name));
        let path = if name == "one" { ".spec.containers" } else { ".spec.template" };
        let before = world.kubectl.value(object, path);
        laptop.intercept(target, &["--mode", "container", "--timeout", "90"]).ok();
        eventually("the laptop answers", PATIENCE, || all_by("lap"));
        assert_eq!(
            world.kubectl.value(&format!("service/{name}"), ".spec.selector.app"),
            name,
            "no Service is touched"
        );
        laptop.run(&["leave", "--all"]).ok();
        eventually("the original answers again", PATIENCE, || all_by(name));
        assert_eq!(world.kubectl.value(object, path), before, "{target}");
        assert_eq!(
            world.kubectl.value(object, ".metadata.annotations.causeway\\.dev/original"),
            "",
            "{target}"
        );
    }
    laptop.run(&["disconnect"]).ok();
    nothing_is_left(&world);
}
