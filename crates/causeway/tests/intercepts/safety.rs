//! What nobody may do, by rights or by keys.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use std::process::Command;

use crate::load::ask;
use crate::world::{Laptop, World};

#[test]
fn who_edits_a_namespace_may_connect_and_not_intercept() {
    let world = World::start();
    let can = |verb: &str, kind: &str, role: &str| {
        let user = format!("{role}-user");
        world.kubectl.run(&[
            "create",
            "rolebinding",
            &user,
            &format!("--clusterrole={role}"),
            &format!("--user={user}"),
        ]);
        let (kind, part) = kind.split_once('/').unwrap_or((kind, ""));
        let part = format!("--subresource={part}");
        world.kubectl.run(&["auth", "can-i", verb, kind, &part, "--as", &user]).stdout.trim() == "yes"
    };
    for (verb, kind, role, may) in [
        ("create", "workstations.causeway.dev", "edit", true),
        ("create", "interceptrequests.causeway.dev", "edit", false),
        ("create", "interceptrequests.causeway.dev", "admin", true),
        ("patch", "workstations.causeway.dev/status", "admin", false),
        ("patch", "interceptrequests.causeway.dev/status", "admin", false),
        ("patch", "gatewayplans.causeway.dev", "admin", false),
        ("get", "interceptrequests.causeway.dev", "view", true),
    ] {
        assert_eq!(can(verb, kind, role), may, "{role} {verb} {kind}");
    }
    // Everybody reaches the pods of the cluster's end by their names, and nothing else there.
    let _laptop = Laptop::connected(&world, "laptop");
    let system = world.server.namespace("causeway-system");
    let pod = eventually("a pod is named", PATIENCE, || {
        Some(world.kubectl.value("workstation/laptop", ".status.stowaway.pods[0]"))
            .filter(|pod| !pod.is_empty())
    });
    for (what, may) in [(format!("pods/{pod}"), true), ("pods/other".to_owned(), false)] {
        let name = what.trim_start_matches("pods/");
        let asked = ["auth", "can-i", "create", "pods", "--subresource=portforward", "--as", "anybody"];
        let mut all = asked.to_vec();
        let full = format!("pods/{name}");
        all[3] = &full;
        let ran = system.run(&all);
        assert_eq!(ran.stdout.trim() == "yes", may, "{what}: {ran}");
    }
    assert_ne!(system.run(&["auth", "can-i", "get", "secrets", "--as", "anybody"]).stdout.trim(), "yes");
}

#[test]
fn a_machine_reaches_services_and_pods_and_nothing_of_the_nodes() {
    let world = World::start();
    let laptop = Laptop::connected(&world, "laptop");
    let proxy = laptop.connection()["proxy"].as_str().expect("a proxy").to_owned();
    let through = |url: &str| {
        let mut curl = Command::new("curl");
        let socks = format!("socks5h://{proxy}");
        finish(curl.args(["-s", "--max-time", "5", "--noproxy", "", "--proxy", &socks, url])).stdout
    };
    eventually("names of the cluster are known", PATIENCE, || through("http://web.shop/").starts_with("web"));
    assert!(through("http://web.shop.svc.cluster.local/").starts_with("web"));
    assert!(through("http://web/").starts_with("web"), "in its own namespace");
    assert!(through(&format!("http://{}/", world.address("web"))).starts_with("web"));
    let pod = world.kubectl.value("pods", ".items[0].status.podIP");
    assert!(through(&format!("http://{pod}:8080/")).starts_with("web"));
    // The machine that this is all on stands for the nodes.
    let (listener, port) = causeway_testkit::port::taken();
    for url in
        [format!("http://127.0.0.1:{port}/"), "http://169.254.169.254/".into(), "http://localhost/".into()]
    {
        assert_eq!(through(&url), "", "{url}");
    }
    drop(listener);
}

#[test]
fn the_key_of_a_carrier_opens_what_it_was_granted_and_nothing_else() {
    let world = World::start();
    let laptop = Laptop::connected(&world, "laptop");
    let address = world.address("web");
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    eventually("requests come here", PATIENCE, || {
        ask(&address, &["x-user: me"]).is_ok_and(|by| by == "laptop")
    });
    // Who may read Secrets in the namespace has the key.
    let entry = world.kubectl.value("secret/web-carrier-keys", ".data.certificates\\.json");
    let mut decode = Command::new("base64");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), entry).unwrap();
    let text = finish(decode.arg("-d").arg(file.path())).stdout;
    let keys: serde_json::Value = serde_json::from_str(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &serde_json::Value| {
        let path = dir.path().join(name);
        std::fs::write(&path, text.as_str().unwrap()).unwrap();
        path
    };
    let (certificate, key, ca) = (
        write("crt", &keys["certificates"]["carrier"]["certificate"]),
        write("key", &keys["certificates"]["carrier"]["key"]),
        write("ca", &keys["authorities"]["stowaway"]),
    );
    let uid = world.kubectl.value("workstation/laptop", ".metadata.uid");
    let replica = world.kubectl.value("workstation/laptop", ".status.connections[0].replica");
    let system = world.server.namespace("causeway-system");
    let pod = system.value(&format!("pod/{replica}"), ".status.podIP");
    let asks = |port: u16, with_key: bool| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-quiet", "-connect", &format!("{pod}:7845")]);
        openssl.args(["-servername", &format!("p{port}.{uid}.workstation.causeway")]);
        openssl.arg("-CAfile").arg(&ca);
        if with_key {
            openssl.arg("-cert").arg(&certificate).arg("-key").arg(&key);
        }
        let mut child = openssl
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        use std::io::Write as _;
        let _ =
            child.stdin.take().unwrap().write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
    };
    assert!(asks(laptop.port, true).contains("laptop"), "what it was granted");
    assert_eq!(asks(laptop.port, false), "", "without a key");
    let (listener, other) = causeway_testkit::port::taken();
    assert_eq!(asks(other, true), "", "another port");
    drop(listener);
    // The grant goes with the request.
    laptop.causeway(&["leave", "--all"]).ok();
    eventually("it opens nothing any more", PATIENCE, || asks(laptop.port, true).is_empty());
}
