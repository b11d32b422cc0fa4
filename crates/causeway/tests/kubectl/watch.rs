//! `kubectl get --watch`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::objects::config_map;
use crate::peer::shared;

#[test]
fn sees_added_modified_and_deleted() {
    let kubectl = shared().namespace("watch");
    kubectl.apply(&config_map("first", "a: b")).ok();
    let mut child = kubectl
        .command(&["get", "configmap", "-w", "--output-watch-events", "--no-headers"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = |expected: &str| {
        let line = loop {
            let line = lines.next().unwrap().unwrap();
            if !line.contains("kube-root-ca.crt") {
                break line;
            }
        };
        assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>().join(" "), expected);
    };
    next("ADDED first");
    kubectl.apply(&config_map("second", "a: b")).ok();
    next("ADDED second");
    kubectl.apply(&config_map("second", "a: c")).ok();
    next("MODIFIED second");
    kubectl.ok(&["delete", "configmap", "first"]);
    next("DELETED first");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_object_that_leaves_the_selector_is_deleted_for_the_watcher() {
    let kubectl = shared().namespace("watch-selector");
    kubectl.apply(&config_map("moving", "a: b")).ok();
    kubectl.ok(&["label", "configmap", "moving", "in=yes"]);
    let mut child = kubectl
        .command(&["get", "configmap", "-w", "-l", "in=yes", "--output-watch-events", "--no-headers"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("ADDED ") && first.contains(" moving "), "{first}");
    kubectl.ok(&["label", "configmap", "moving", "in-"]);
    let last = lines.next().unwrap().unwrap();
    assert!(last.starts_with("DELETED ") && last.contains(" moving "), "{last}");
    child.kill().unwrap();
    child.wait().unwrap();
}
