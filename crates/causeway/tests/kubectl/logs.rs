//! `kubectl logs`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::objects::{deployment, pod};
use crate::peer::shared;

#[test]
fn of_pods_with_several_containers() {
    let kubectl = shared().namespace("logs");
    kubectl.apply(&pod("pair", &["left", "right"])).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/pair", "--timeout=60s"]);
    let said = |args: &[&str]| {
        let mut all = vec!["logs"];
        all.extend(args);
        kubectl.ok(&all)
    };
    eventually("both said that they listen", PATIENCE, || {
        let both = said(&["pair", "--all-containers"]);
        both.contains("left listening on 127.0.0.1:") && both.contains("right listening on")
    });
    let left = kubectl.run(&["logs", "pair"]);
    assert!(left.stdout.starts_with("left listening on"), "{left}");
    assert!(left.stderr.contains("Defaulted container \"left\" out of: left, right"), "{left}");
    assert!(said(&["pair", "-c", "right"]).starts_with("right listening on"));
    let prefixed = said(&["pair", "-c", "left", "--prefix", "--timestamps"]);
    assert!(prefixed.starts_with("[pod/pair/left] 20"), "{prefixed}");
    assert_eq!(said(&["pair", "-c", "left", "--tail=0"]), "");
    assert!(said(&["pair", "-c", "left", "--since=1h"]).contains("left listening"));
    assert_eq!(said(&["pair", "-c", "left", "--since-time=2999-01-01T00:00:00Z"]), "");
    let unknown = kubectl.fails(&["logs", "pair", "-c", "middle"]);
    assert!(unknown.contains("container middle is not valid for pod pair"), "{unknown}");
    let never = kubectl.fails(&["logs", "pair", "-c", "left", "--previous"]);
    assert!(never.contains("previous terminated container \"left\" in pod \"pair\" not found"), "{never}");

    let mut child =
        kubectl.command(&["logs", "-f", "pair", "-c", "left"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("left listening on"));
    kubectl.ok(&["delete", "pod", "pair", "--wait=false"]);
    assert_eq!(lines.next().unwrap().unwrap(), "left stopped");
    assert!(lines.next().is_none(), "the stream ends with the container");
    assert!(child.wait().unwrap().success());
}

#[test]
fn of_a_container_that_was_restarted() {
    let kubectl = shared().namespace("logs-previous");
    let failing =
        pod("failing", &["main"]).replace("args: [echo, --name, main]", "args: [echo, --listen, nowhere]");
    kubectl.apply(&failing).ok();
    eventually("it was restarted", PATIENCE, || {
        let count = kubectl.value("pod/failing", ".status.containerStatuses[0].restartCount");
        count.parse::<u32>().is_ok_and(|count| count > 0)
    });
    let previous = kubectl.ok(&["logs", "failing", "--previous"]);
    assert!(previous.contains("invalid value 'nowhere'"), "{previous}");
    let table = kubectl.ok(&["get", "pod", "failing", "--no-headers"]);
    assert!(
        table.contains("CrashLoopBackOff") || table.contains("Error") || table.contains("Running"),
        "{table}"
    );
    kubectl.ok(&["delete", "pod", "failing", "--timeout=60s"]);
}

#[test]
fn of_a_deployment() {
    let kubectl = shared().namespace("logs-deployment");
    kubectl.apply(&deployment("web", 1)).ok();
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    eventually("its pod said something", PATIENCE, || {
        kubectl.ok(&["logs", "deployment/web"]).contains("echo listening on")
    });
    assert!(kubectl.ok(&["logs", "-l", "app=web", "--tail=1"]).contains("echo listening on"));
}

#[test]
fn of_an_image_that_can_not_run_here() {
    let kubectl = shared().namespace("logs-foreign");
    kubectl.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: foreign}\nspec: {containers: [{name: web, image: nginx}]}\n").ok();
    eventually("the pod says why it waits", PATIENCE, || {
        let state = kubectl.value("pod/foreign", ".status.containerStatuses[0].state.waiting.message");
        state.contains("nginx")
    });
    let refused = kubectl.fails(&["logs", "foreign"]);
    assert!(refused.contains("is waiting to start: UnsupportedImage: image nginx"), "{refused}");
}
