//! The first thing a new user applies: an `Infra`, and what comes of it.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::deploy;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;

use crate::peer::shared;

fn sample(name: &str) -> String {
    std::fs::read_to_string(deploy("samples").join(name)).unwrap()
}

#[test]
fn an_infra_gets_its_children() {
    let server = shared();
    let kubectl = server.namespace("clusters");
    let minimal = sample("infra-minimal.yaml");
    assert_eq!(kubectl.apply(&minimal).ok(), "infra.causeway.dev/my-cluster created\n");
    assert_eq!(kubectl.apply(&minimal).ok(), "infra.causeway.dev/my-cluster unchanged\n");
    let mut children = String::new();
    eventually("the three children are there", PATIENCE, || {
        children = kubectl.ok(&["get", "causeway", "-o", "name"]);
        ["proxyserver.", "dnsserver.", "dhcpserver."].iter().all(|kind| children.contains(kind))
    });
    eventually("the Infra has a condition", PATIENCE, || {
        !kubectl.value("infra/my-cluster", ".status.conditions[?(@.type=='Ready')].reason").is_empty()
    });
    let table = kubectl.ok(&["get", "infra"]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "READY", "AGE"], "{table}");
    let wide = kubectl.ok(&["get", "infra", "-o", "wide"]);
    assert!(wide.contains("CIDR") && wide.contains("192.168.100.0/24"), "{wide}");
    let addresses = kubectl.value("infra/my-cluster", ".status.addresses");
    assert!(addresses.contains("192.168.100."), "{addresses}");
    let described = kubectl.ok(&["describe", "infra", "my-cluster"]);
    for part in ["Kind:         Infra", "Network Config:", "Conditions:", "Events:"] {
        assert!(described.contains(part), "lacks {part:?}:\n{described}");
    }
    let owners =
        kubectl.ok(&["get", "proxyservers", "-o", "jsonpath={.items[*].metadata.ownerReferences[*].kind}"]);
    assert_eq!(owners, "Infra");

    let status = finish(
        std::process::Command::new(program())
            .env_remove("KUBECONFIG")
            .args(["status", "--namespace", "clusters", "--data-dir"])
            .arg(server.data_dir()),
    );
    assert!(status.stdout.starts_with("KIND ") && status.stdout.contains("my-cluster"), "{status}");

    let without = minimal.replace("    dhcp: {}\n", "");
    assert_ne!(without, minimal);
    kubectl.apply(&without).ok();
    eventually("a component that is no longer asked for is removed", PATIENCE, || {
        !kubectl.ok(&["get", "causeway", "-o", "name"]).contains("dhcpserver.")
    });
    kubectl.ok(&["delete", "infra", "my-cluster", "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(kubectl.ok(&["get", "causeway", "-o", "name"]), "", "the children went with it");
}

#[test]
fn every_sample_is_accepted() {
    let kubectl = shared().kubectl();
    let samples = deploy("samples");
    let namespaces: std::collections::BTreeSet<String> = std::fs::read_dir(&samples)
        .unwrap()
        .flat_map(|entry| {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            text.lines()
                .filter_map(|line| line.strip_prefix("  namespace: ").map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect();
    for namespace in namespaces {
        shared().namespace(&namespace);
    }
    kubectl.ok(&["apply", "--dry-run=server", "-f", samples.to_str().unwrap()]);
}
