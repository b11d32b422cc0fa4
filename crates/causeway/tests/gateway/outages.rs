//! A gateway outlives its control plane, and a pod that is killed comes back with what it knew.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::{Server, signal};

use crate::backend::{Authority, backend, curl, service};
use crate::machine::{GATEWAY, address, route};

#[test]
fn without_a_control_plane_a_killed_pod_serves_again_with_its_certificates() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(root.path(), &[]);
    let kubectl = server.kubectl();
    let authority = Authority::new();
    let shop = backend("shop");
    let objects = service("shop", shop) + GATEWAY + &authority.secret("site", "shop.test", 1);
    kubectl.apply(&objects).ok();
    kubectl.apply(&route("shop", "shop", "hostnames: [shop.test]", "")).ok();
    address(&kubectl, "web");
    let pod = kubectl.ok(&["get", "pods", "-l", "app=gateway", "-o", "jsonpath={.items[0].status.podIP}"]);
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    // By the pod's own address: that of the Service goes with the control plane.
    let resolve = format!("shop.test:8443:{pod}");
    let args = ["--resolve", &resolve, "--cacert", ca.path().to_str().unwrap(), "https://shop.test:8443/"];
    eventually("it serves", PATIENCE, || curl(&args).starts_with("shop "));

    server.kill();
    assert!(curl(&args).starts_with("shop "), "the data plane goes on");
    let mut again = Server::start_again_in(root.path(), &[]);
    eventually("it is adopted and serves", PATIENCE, || curl(&args).starts_with("shop "));
    // Kill the pod's process: it is started again.
    let pid = pod_process(&root.path().join("data"));
    signal(pid, "KILL");
    eventually("another process serves", PATIENCE, || {
        pod_process(&root.path().join("data")) != pid && curl(&args).starts_with("shop ")
    });
    again.stop();
}

/// The process of the only gateway pod below this directory.
fn pod_process(data: &std::path::Path) -> u32 {
    eventually("the pod has a process", PATIENCE, || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
            let words: Vec<&str> = command.split('\0').collect();
            words.get(1) == Some(&"gateway") && environment.contains(data.to_str().unwrap())
        })
    })
}
