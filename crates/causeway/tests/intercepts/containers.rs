//! Mode Container: the container is replaced for as long as the machine is there, and is what it was afterwards.

use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::load::ask;
use crate::world::{Laptop, World, container};

/// How long a machine may be away before its container is put back.
const AWAY: Duration = Duration::from_secs(30);

fn by(address: &str) -> String {
    ask(address, &[]).unwrap_or_else(|error| error)
}

#[test]
fn a_deployment_gets_its_container_back_as_it_was() {
    let world = World::start();
    let address = world.address("web");
    let template = || world.kubectl.value("deployment/web", ".spec.template");
    let before = template();
    let laptop = Laptop::connected(&world, "laptop");
    laptop.intercept("deploy/web", "http", &["--mode", "container"]).ok();
    eventually("the laptop answers for all pods", PATIENCE, || (0..5).all(|_| by(&address) == "laptop"));
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web", "no Service is touched");
    // More pods are carriers, too.
    world.kubectl.ok(&["scale", "deployment/web", "--replicas=3"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert_eq!(by(&address), "laptop");
    laptop.causeway(&["leave", "--all"]).ok();
    eventually("the original answers", PATIENCE, || (0..5).all(|_| by(&address) == "web"));
    assert_eq!(template(), before);
    assert_eq!(world.kubectl.value("deployment/web", ".metadata.annotations.causeway\\.dev/original"), "");
}

#[test]
fn a_machine_that_is_away_for_long_gives_the_container_back_until_it_is_there_again() {
    let world = World::start();
    let address = world.address("web");
    let all_by = |name: &str| (0..5).all(|_| by(&address) == name);
    let template = || world.kubectl.value("deployment/web", ".spec.template");
    let before = template();
    let laptop = Laptop::connected(&world, "laptop");
    laptop.intercept("deploy/web", "http", &["--mode", "container"]).ok();
    eventually("the laptop answers for all pods", PATIENCE, || all_by("laptop"));
    let generation = || world.kubectl.value("deployment/web", ".metadata.generation");
    let replaced = generation();
    // A short loss replaces no pod.
    laptop.die();
    laptop.causeway(&["connect", "--name", "laptop"]).ok();
    eventually("the laptop answers again", PATIENCE, || all_by("laptop"));
    assert_eq!(generation(), replaced);

    laptop.die();
    let died = Instant::now();
    let message = world.says("web-8080-laptop", "Connected", "Disconnected");
    assert!(message.contains("nobody answers in the place of the container"), "{message}");
    eventually("the container is put back", AWAY + PATIENCE, || template() == before);
    let took = died.elapsed();
    assert!(took < AWAY + Duration::from_secs(5), "{took:.1?}");
    eventually("the original answers", PATIENCE, || all_by("web"));
    println!("put back {took:.1?} after the laptop died, answered after {:.1?}", died.elapsed());
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let message = world.says("web-8080-laptop", "Installed", "Disconnected");
    assert!(message.contains("put back when it is away for long"), "{message}");

    laptop.causeway(&["connect", "--name", "laptop"]).ok();
    eventually("the laptop answers again", PATIENCE, || all_by("laptop"));
    laptop.causeway(&["leave", "--all"]).ok();
    eventually("the original answers again", PATIENCE, || all_by("web"));
    assert_eq!(template(), before);
}

#[test]
fn a_stateful_set_and_a_pod_that_nobody_made() {
    let world = World::start();
    let objects = format!(
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  replicas: 2
  serviceName: db
  selector: {{matchLabels: {{app: db}}}}
  template:
    metadata: {{labels: {{app: db}}}}
    spec:
      containers:
      - {}
---
apiVersion: v1
kind: Service
metadata: {{name: db}}
spec: {{selector: {{app: db}}, ports: [{{name: http, port: 80, targetPort: http}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: one, labels: {{app: one}}}}
spec:
  containers:
  - {}
---
apiVersion: v1
kind: Service
metadata: {{name: one}}
spec: {{selector: {{app: one}}, ports: [{{name: http, port: 80, targetPort: http}}]}}
",
        container("db"),
        container("one")
    );
    world.kubectl.apply(&objects).ok();
    world.kubectl.ok(&["rollout", "status", "statefulset/db", "--timeout=60s"]);
    world.kubectl.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=60s"]);
    let laptop = Laptop::connected(&world, "laptop");
    for (target, service) in [("sts/db", "db"), ("pod/one", "one")] {
        let address = world.address(service);
        eventually("the original answers", PATIENCE, || by(&address) == service);
        laptop.intercept(target, "http", &["--mode", "container"]).ok();
        eventually("the laptop answers", PATIENCE, || (0..5).all(|_| by(&address) == "laptop"));
        laptop.causeway(&["leave", "--all"]).ok();
        eventually("the original answers again", PATIENCE, || (0..5).all(|_| by(&address) == service));
    }
    let labels = world.kubectl.value("pod/one", ".metadata.labels");
    assert!(labels.contains("one") && !labels.contains("causeway"), "{labels}");
    eventually("its stand-in is gone", PATIENCE, || {
        !world.kubectl.ok(&["get", "pods", "-o", "name"]).contains("one-pod-swap")
    });
}
