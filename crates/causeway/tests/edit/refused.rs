//! A spec that is refused never costs a running service, and what is not there is not Ready.

use std::net::SocketAddr;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::{Server, signal};
use serde_json::json;

use crate::manifests;
use crate::tls::{Authority, Client};

#[test]
fn a_refused_spec_costs_nothing_not_even_with_the_pod_or_its_deployment_deleted() {
    let address: SocketAddr = "127.78.0.40:8448".parse().unwrap();
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    let authority = Authority::new();
    kubectl.apply(&manifests::services(&authority)).ok();
    kubectl.apply(&manifests::proxy("Native", address)).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
    eventually("the spec is kept", PATIENCE, || {
        kubectl.value("proxyserver/edge", ".status.acceptedGeneration") == "1"
    });
    let patch = json!([{"op": "replace", "path": "/spec/backends/1/hostname", "value": "old.example.test"}]);
    kubectl.ok(&["patch", "proxyserver", "edge", "--type", "json", "-p", &patch.to_string()]);
    let ready = "{.status.conditions[?(@.type==\"Ready\")].message}";
    let ready = ready.trim_matches(['{', '}']);
    eventually("the refusal is told", PATIENCE, || {
        let message = kubectl.value("proxyserver/edge", ready);
        message.contains("spec.backends[1].hostname") && message.contains("the spec of generation 1 runs on")
    });
    let client = Client::new(address, &authority);
    assert_eq!(client.ask("old.example.test").unwrap(), "one");

    let serves_again = |what: &str| {
        eventually(what, PATIENCE, || client.ask("old.example.test").is_ok_and(|word| word == "one"));
        eventually("the new pod says what it runs", PATIENCE, || {
            let running = kubectl.value("proxyserver/edge", ".status.replicas[*].runningGeneration");
            let refused = kubectl.value("proxyserver/edge", ".status.replicas[*].refused");
            running == "1" && refused.contains("spec.backends[1].hostname")
        });
    };
    let pod = || kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "name"]);
    let old = pod();
    kubectl.ok(&["delete", old.trim(), "--grace-period=1"]);
    eventually("another pod is there", PATIENCE, || !pod().is_empty() && !pod().contains(old.trim()));
    serves_again("traffic passes after the pod was deleted");
    kubectl.ok(&["delete", "deployment", "edge", "--wait"]);
    serves_again("traffic passes after the Deployment was deleted");

    let process = process_of(&server, " proxy --namespace ");
    signal(process, "KILL");
    eventually("another process is there", PATIENCE, || {
        !std::path::Path::new(&format!("/proc/{process}")).exists()
    });
    serves_again("traffic passes after the process was killed");

    // Mended, it is ready; and a process that hangs is not, though it last said that it serves.
    kubectl.apply(&manifests::proxy("Native", address)).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
    let process = process_of(&server, " proxy --namespace ");
    signal(process, "STOP");
    kubectl.ok(&["wait", "--for=condition=Ready=False", "proxyserver/edge", "--timeout=60s"]);
    signal(process, "CONT");
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
}

#[test]
fn an_envoy_that_hangs_is_not_ready() {
    let Some(envoy) = causeway_testkit::envoy::program() else { return };
    let server = Server::start(&["--program", &format!("envoyproxy/envoy={}", envoy.display())]);
    let kubectl = server.kubectl();
    kubectl.trust();
    kubectl.apply(&manifests::services(&Authority::new())).ok();
    kubectl.apply(&manifests::proxy("Envoy", "127.78.0.41:8448".parse().unwrap())).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
    let process = process_of(&server, "bootstrap.json");
    signal(process, "STOP");
    kubectl.ok(&["wait", "--for=condition=Ready=False", "proxyserver/edge", "--timeout=60s"]);
    eventually("the cause is told", PATIENCE, || {
        let said = kubectl.ok(&["get", "proxyserver", "edge", "-o", "jsonpath={.status}"]);
        if said.contains("workers do not answer") { Ok(()) } else { Err(said) }
    });
    signal(process, "CONT");
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
}

/// The process that this server's node runs with this in its command line.
fn process_of(server: &Server, part: &str) -> u32 {
    let data_dir = server.data_dir();
    let data_dir = data_dir.to_str().unwrap();
    let is_it = |id: &u32| {
        let read = |file: &str| std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        command.contains(part) && command.contains(data_dir)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(is_it).expect("it runs")
}

#[test]
fn an_address_that_is_not_there_is_not_ready() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    kubectl.apply(&manifests::services(&Authority::new())).ok();
    kubectl.apply(&manifests::proxy("Native", "192.0.2.77:8449".parse().unwrap())).ok();
    for condition in ["Ready", "NetworkAttached"] {
        let of = |field: &str| {
            let path = format!(".status.conditions[?(@.type==\"{condition}\")].{field}");
            kubectl.value("proxyserver/edge", &path)
        };
        eventually("what is missing is told", PATIENCE, || of("reason") == "AttachmentFailed");
        assert_eq!(of("status"), "False");
        let message = of("message");
        assert!(message.contains("does not have 192.0.2.77"), "{message}");
        assert!(message.contains("networkAttachmentName"), "{message}");
    }
    let line = kubectl.ok(&["get", "proxyserver", "edge", "-o", "wide", "--no-headers"]);
    for column in ["192.0.2.77", "8449", "False", "Native"] {
        assert!(line.contains(column), "lacks {column}: {line}");
    }
}
