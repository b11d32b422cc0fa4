//! What nobody may do, by rights or by keys.

use std::process::Command;

use causeway_link::{Authority, Identity, Key, Role};
use causeway_netstack::wireguard::SecretKey;
use causeway_stowaway::workstation_name;
use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;

use crate::load::ask;
use crate::thief::{fetches, links};
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
    let laptop = Laptop::new(&world, "laptop");
    // One without a password.
    let proxy = format!("127.0.0.1:{}", causeway_testkit::port::free());
    laptop.causeway(&["connect", "--name", "laptop", "--proxy", &proxy]).ok();
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
    let node = world.kubectl.value("nodes", ".items[0].status.addresses[0].address");
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://{node}:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        "http://169.254.169.254/".into(),
        "http://[fd00:ec2::254]/".into(),
        "http://localhost/".into(),
    ] {
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

#[test]
fn an_address_or_a_name_without_its_key_opens_nothing() {
    let world = World::start();
    let (victim, thief) = (Laptop::connected(&world, "victim"), Laptop::connected(&world, "thief"));
    let status = |path: &str| {
        eventually(path, PATIENCE, || {
            Some(world.kubectl.value("workstation/victim", path)).filter(|text| !text.is_empty())
        })
    };
    let (address, hub) = (status(".status.address"), status(".status.serverPublicKey"));
    let (endpoint, web) = (status(".status.endpoint"), world.address("web"));
    let key = |laptop: &Laptop| laptop.key("wireguard.key").trim().parse::<SecretKey>().unwrap();
    eventually("its own key fetches a page", PATIENCE, || {
        fetches(key(&victim), &hub, &endpoint, &address, &web)
    });
    assert!(!fetches(SecretKey::generate(), &hub, &endpoint, &address, &web), "a stranger with its address");
    assert!(!fetches(key(&thief), &hub, &endpoint, &address, &web), "another machine with its address");

    let link = status(".status.linkEndpoints[0]");
    let (certificate, authority) = (status(".status.certificate"), status(".status.authority"));
    let own = Key::from_pem(&victim.key("link.key")).unwrap().identity(&certificate, &authority).unwrap();
    eventually("its own key has a link", PATIENCE, || links(&own, &link));
    // The certificate is for everybody to read, the key is not.
    Key::new().unwrap().identity(&certificate, &authority).expect_err("another key");
    let uid = world.kubectl.value("workstation/victim", ".metadata.uid");
    let made_up = Authority::new().unwrap().issue(Role::Dialer, &workstation_name(&uid)).unwrap();
    let disguised = Identity::from_pem(&made_up.to_pem().replace(made_up.authority(), &authority));
    for identity in [Some(made_up), disguised.ok()].into_iter().flatten() {
        assert!(!links(&identity, &link), "signed by nobody here");
    }
}

#[test]
fn who_has_a_say_is_obeyed_and_the_target_is_told_who_takes_its_traffic() {
    let world = World::start();
    let address = world.address("web");
    let headless = "apiVersion: v1
kind: Service
metadata: {name: direct}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
";
    world.kubectl.apply(headless).ok();
    let laptop = Laptop::connected(&world, "laptop");
    // One that will be forgotten.
    laptop
        .intercept("deploy/web", "http", &["--header", "x-user=brief", "--ttl", "1m", "--name", "brief"])
        .ok();
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    let answers = |user: &str, name: &str| {
        eventually(&format!("{name} answers {user}"), PATIENCE, || {
            let by = ask(&address, &[&format!("x-user: {user}")]).unwrap_or_else(|error| error);
            if by == name { Ok(()) } else { Err(by) }
        });
    };
    answers("me", "laptop");
    let message = world.says("web-8080-laptop", "Installed", "Installed");
    assert!(message.contains("direct is headless"), "{message}");
    let path =
        r#"jsonpath={range .items[?(@.reason=="Intercepted")]}{.involvedObject.name}: {.message}{"\n"}{end}"#;
    let wanted = "web: InterceptRequest shop/web-8080-laptop: Workstation shop/laptop";
    eventually("the target is told", PATIENCE, || {
        let events = world.kubectl.ok(&["get", "events", "-o", path]);
        if events.contains(wanted) { Ok(()) } else { Err(events) }
    });

    // Whoever owns the workload, or the namespace.
    for object in ["deployment/web", "namespace/shop"] {
        world.kubectl.ok(&["label", object, "causeway.dev/intercept=deny"]);
        let message = world.says("web-8080-laptop", "Accepted", "Denied");
        assert!(message.contains("causeway.dev/intercept: deny"), "{message}");
        answers("me", "web");
        world.kubectl.ok(&["label", object, "causeway.dev/intercept-"]);
        world.says("web-8080-laptop", "Ready", "Ready");
        answers("me", "laptop");
    }

    // Whoever has the machine.
    let lab = world.server.namespace("lab");
    let other = Laptop::new(&world, "other");
    other.run(&["connect", "-n", "lab", "--name", "other"]).ok();
    let request = format!(
        "apiVersion: causeway.dev/v1alpha1
kind: InterceptRequest
metadata: {{name: beyond}}
spec:
  target: deploy/web
  targetContainerPort: 8080
  workstation: lab/other
  destinationPort: {}
  match: [{{headers: [{{name: x-user, value: other}}]}}]
",
        other.port
    );
    world.kubectl.apply(&request).ok();
    let message = world.says("beyond", "Accepted", "RefNotPermitted");
    assert!(message.contains("ReferenceGrant"), "{message}");
    answers("other", "web");
    let consent = "apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: intercepts}
spec:
  from: [{group: causeway.dev, kind: InterceptRequest, namespace: shop}]
  to: [{group: causeway.dev, kind: Workstation, name: other}]
";
    lab.apply(consent).ok();
    world.says("beyond", "Ready", "Ready");
    answers("other", "other");
    lab.ok(&["delete", "referencegrant", "intercepts"]);
    world.says("beyond", "Accepted", "RefNotPermitted");
    answers("other", "web");

    eventually("the one that was forgotten ends by itself", 2 * PATIENCE, || {
        let left = world.kubectl.ok(&["get", "interceptrequests", "-o", "name"]);
        if left.contains("brief") { Err(left) } else { Ok(()) }
    });
    answers("brief", "web");
    answers("me", "laptop");
}

#[test]
fn what_a_tenant_makes_up_is_never_restored() {
    let world = World::start();
    world.kubectl.apply(&crate::world::workload("evil", 1)).ok();
    let laptop = Laptop::connected(&world, "laptop");
    let address = world.address("web");
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    eventually("requests come here", PATIENCE, || {
        ask(&address, &["x-user: me"]).is_ok_and(|by| by == "laptop")
    });
    // One who may do everything in the namespace, and is not the operator.
    world.kubectl.ok(&["create", "rolebinding", "tenant", "--clusterrole=admin", "--user=tenant"]);
    let original = world.kubectl.value("service/web", ".metadata.annotations.causeway\\.dev/original");
    assert!(original.contains("web"), "{original}");
    let forged = format!("causeway.dev/original={}", original.replace("\"web\"", "\"evil\""));
    let request = world.kubectl.ok(&["get", "interceptrequests", "-o", "name"]).trim().to_owned();
    for object in ["service/web", &request] {
        world.kubectl.ok(&["annotate", object, "--overwrite", &forged, "--as", "tenant"]);
    }
    let patch = r#"{"status":{"originalConfig":{"services":{"web":{"selector":{"app":"evil"}}}}}}"#;
    let refused = world.kubectl.run(&[
        "patch",
        &request,
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
        "--as",
        "tenant",
    ]);
    assert!(refused.stderr.contains("orbidden"), "{refused}");
    laptop.causeway(&["leave", "--all"]).ok();
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    for _ in 0..5 {
        assert_eq!(ask(&address, &["x-user: me"]).unwrap(), "web");
    }
}
