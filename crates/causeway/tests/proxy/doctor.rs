//! `causeway doctor`: what it says of a proxy that is well, and a test for each way in which one is not.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Ran;
use serde_json::{Value, json};

use crate::peer::TlsBackend;
use crate::world::{NAMESPACE, PORT, World, backend};

/// Runs `doctor`, with connections of its own.
fn examine(world: &World) -> Ran {
    world.causeway(&["doctor", "proxy/edge", "-n", NAMESPACE])
}

/// The lines of what is wrong.
fn wrong(ran: &Ran) -> Vec<&str> {
    ran.stdout.lines().filter(|line| line.starts_with('✗')).collect()
}

fn lines(ran: &Ran, wanted: &[&str]) {
    for line in wanted {
        assert!(ran.stdout.contains(line), "lacks {line:?}:\n{ran}");
    }
}

/// A world with these names, each with a backend that is well.
fn serving(names: &[&'static str]) -> (World, crate::world::Proxy) {
    let world = World::new();
    for name in names {
        let server = TlsBackend::start(name, &[&format!("{name}.test")]);
        world.service(name, &server);
    }
    let backends: Vec<Value> = names.iter().map(|name| backend(name, &format!("{name}.test"))).collect();
    world.proxy_server(&backends).ok();
    let proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);
    (world, proxy)
}

#[test]
fn a_proxy_that_is_well() {
    let (world, _proxy) = serving(&["one", "two"]);
    let address = world.at(PORT);
    let ran = examine(&world);
    lines(
        &ran,
        &[
            "✓ the spec is valid, with 2 backends",
            &format!("✓ proxy edge-0 serves on {address}"),
            "✓ backends with ready endpoints: one (1), two (1)",
            &format!(
                "✓ on {address} these names reach their backends, whose certificates are for them: one.test (one), \
                 two.test (two)"
            ),
            &format!("✓ TLS without a name on {address} is refused (TLS alert unrecognized_name)"),
            &format!("✓ an unknown name on {address} is refused (TLS alert unrecognized_name)"),
            &format!("✓ plaintext on {address} is refused"),
        ],
    );
    assert!(ran.stdout.ends_with("\n\nnothing is wrong with ProxyServer crossing/edge\n"), "{ran}");
    assert_eq!(ran.code, Some(0), "{ran}");

    let ran = world.causeway(&["doctor", "edge", "-n", NAMESPACE, "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["well"], &report["kind"]), (&json!(true), &json!("ProxyServer")));
    assert_eq!(
        report["findings"][0],
        json!({"verdict": "good", "what": "the spec is valid, with 2 backends"})
    );
}

#[test]
fn a_proxy_that_is_not_there() {
    let world = World::new();
    let missing = world.causeway(&["doctor", "proxy/nobody", "-n", NAMESPACE]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stdout.contains("✗ there is no ProxyServer crossing/nobody"), "{missing}");
}

#[test]
fn a_proxy_scaled_to_nothing_is_the_one_cause() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let kubectl = world.kubectl();
    let labels = json!({"app": "proxy-server", "causeway.dev/owner-kind": "ProxyServer", "causeway.dev/owner-name": "edge"});
    let pod =
        json!({"serviceAccountName": "edge-proxy", "containers": [{"name": "proxy", "image": "causeway"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "edge", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    kubectl.apply(&deployment.to_string()).ok();
    grant_rights(&world);
    // What a proxy that is gone said last, and what the operator made of it.
    let condition = json!({"type": "Ready", "status": "False", "reason": "PodsStarting", "message": "no pod yet",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let status = json!({"status": {
        "deploymentName": "edge", "observedGeneration": 1, "conditions": [condition],
        "replicas": [{"name": "edge-0", "serving": true, "observedGeneration": 1, "listening": ["127.9.9.9:8443"]}],
    }});
    kubectl.ok(&[
        "patch",
        "proxyserver",
        "edge",
        "--subresource=status",
        "--type",
        "merge",
        "-p",
        &status.to_string(),
    ]);
    let ran = examine(&world);
    assert_eq!(wrong(&ran), ["✗ no proxy runs: Deployment edge is scaled to 0"], "{ran}");
    lines(
        &ran,
        &["were not looked at: no proxy runs", "- condition Ready is False (PodsStarting): see above"],
    );
    let last =
        "\n1 thing is wrong; begin with this: kubectl -n crossing scale deployment/edge --replicas=1\n";
    assert!(ran.stdout.ends_with(last), "{ran}");
    assert_eq!(ran.code, Some(1));
}

/// The time that one silence takes does not add up, however many backends there are.
#[test]
fn backends_that_say_nothing() {
    const COUNT: usize = 40;
    let world = World::new();
    // Accepts, as the kernel does for every listener, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    World::service_at(&world.kubectl(), "silent", silent.local_addr().unwrap());
    let mut backends = Vec::new();
    for number in 0..COUNT {
        let mut one = backend(&format!("b{number}"), &format!("b{number}.test"));
        one["targetService"] = "silent".into();
        backends.push(one);
    }
    world.proxy_server(&backends).ok();
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);
    let start = Instant::now();
    let ran = examine(&world);
    let took = start.elapsed();
    assert_eq!(wrong(&ran).len(), COUNT, "{ran}");
    lines(
        &ran,
        &[
            &format!("✗ b7.test on {} does not reach b7: no answer within 3 s", world.at(PORT)),
            &format!("its endpoint {} takes connections and says nothing", silent.local_addr().unwrap()),
        ],
    );
    assert!(!ran.stdout.contains("os error"), "{ran}");
    assert!(took < Duration::from_secs(30), "{took:?} for {COUNT} of them");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_backend_where_nothing_listens() {
    let (world, _proxy) = serving(&["one"]);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    World::service_at(&world.kubectl(), "one", gone);
    let mut ran = examine(&world);
    eventually("the proxy has the new endpoint", PATIENCE, || {
        ran = examine(&world);
        !wrong(&ran).is_empty()
    });
    let first = wrong(&ran)[0];
    assert!(first.starts_with(&format!("✗ one.test on {} does not reach one: ", world.at(PORT))), "{ran}");
    lines(&ran, &[&format!("its endpoint {gone} refuses connections: start the program there")]);
}

#[test]
fn a_certificate_for_another_name() {
    let world = World::new();
    let one = TlsBackend::start("one", &["other.test"]);
    world.service("one", &one);
    let mut wild = backend("wild", "*.wild.test");
    wild["targetService"] = "one".into();
    world.proxy_server(&[backend("one", "one.test"), wild]).ok();
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);
    let ran = examine(&world);
    let said = format!("✗ one.test on {} reaches one, whose certificate is for other.test", world.at(PORT));
    assert_eq!(wrong(&ran), [said], "a made-up name below *.wild.test proves nothing: {ran}");
    lines(&ran, &["give the service of one a certificate for one.test, or correct the backend's hostname"]);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn connections_without_a_name_are_tried_too() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    World::service_at(&world.kubectl(), "silent", silent.local_addr().unwrap());
    world.proxy_server(&[backend("one", "one.test"), backend("silent", "silent.test")]).ok();
    let outcomes = json!({"spec": {"ports": [
        {"port": PORT, "noSNI": {"backend": "one"}, "unknownSNI": {"backend": "silent"}},
    ]}});
    world.kubectl().ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &outcomes.to_string()]);
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);
    let ran = examine(&world);
    lines(
        &ran,
        &[
            &format!("✓ TLS without a name on {} reaches one", world.at(PORT)),
            &format!("✗ an unknown name on {} does not reach silent: no answer within 3 s", world.at(PORT)),
        ],
    );
}

#[test]
fn on_one_machine_nobody_is_sent_to_multus() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let address = format!("{}/8", world.address);
    let network = json!({"networkConfig": {"serverIP": address, "networkAttachmentName": "vlan"}});
    let network = json!({"spec": network}).to_string();
    world.kubectl().ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &network]);
    let report =
        json!({"status": {"replicas": [{"name": "edge-0", "attached": false, "observedGeneration": 2}]}});
    let patch = ["patch", "proxyserver", "edge", "--subresource=status", "--type", "merge", "-p"];
    world.kubectl().ok(&[&patch[..], &[&report.to_string()]].concat());
    assert!(doctor(&world).contains("there is no NetworkAttachmentDefinition crossing/vlan"));

    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}});
    world.kubectl().apply(&node.to_string()).ok();
    let info = [
        "architecture",
        "bootID",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    let mut info: serde_json::Map<_, _> = info.map(|key| (key.to_owned(), json!(""))).into_iter().collect();
    info.insert("containerRuntimeVersion".to_owned(), json!("causeway-process://0.1.0"));
    let status = json!({"status": {"nodeInfo": info}}).to_string();
    world.kubectl().ok(&["patch", "node", "here", "--subresource=status", "--type", "merge", "-p", &status]);
    let said = doctor(&world);
    assert!(
        !said.contains("Multus") && !said.contains("✗ there is no NetworkAttachmentDefinition"),
        "{said}"
    );
    let cure = format!("no interface of this machine has {address}: add it");
    assert!(said.contains(&cure), "{said}");
}

/// Lets the proxy's account watch what it has to.
fn grant_rights(world: &World) {
    let kubectl = world.kubectl();
    for (role, what) in [("own", "proxyservers.causeway.dev"), ("targets", "services,endpointslices")] {
        kubectl.ok(&["create", "role", role, "--verb=get,list,watch", &format!("--resource={what}")]);
        let (role, account) = (format!("--role={role}"), "--serviceaccount=crossing:edge-proxy");
        kubectl.ok(&["create", "rolebinding", &role["--role=".len()..], &role, account]);
    }
}

/// What `doctor` finds, without connections of its own.
fn doctor(world: &World) -> String {
    world.causeway(&["doctor", "proxy/edge", "-n", NAMESPACE, "--no-probes"]).stdout
}

fn finds(world: &World, lines: &[&str]) {
    let said = doctor(world);
    for line in lines {
        assert!(said.contains(line), "lacks {line:?}:\n{said}");
    }
}

#[test]
fn doctor_looks_at_what_the_cluster_made_of_a_proxy() {
    let world = World::new();
    let kubectl = world.kubectl();
    world.proxy_server(&[backend("one", "one.test")]).ok();
    finds(&world, &["- the status names no Deployment", "were not looked at: no proxy runs"]);

    let address = format!("{}/8", world.address);
    let network = json!({"networkConfig": {"serverIP": address, "networkAttachmentName": "vlan"}});
    let patch = json!({"spec": network}).to_string();
    kubectl.ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &patch]);
    let status = json!({"status": {"deploymentName": "edge"}}).to_string();
    kubectl.ok(&["patch", "proxyserver", "edge", "--subresource=status", "--type", "merge", "-p", &status]);
    finds(&world, &["✗ no proxy runs: its Deployment edge is gone"]);

    let labels = json!({"app": "proxy-server", "causeway.dev/owner-kind": "ProxyServer", "causeway.dev/owner-name": "edge"});
    let pod =
        json!({"serviceAccountName": "edge-proxy", "containers": [{"name": "proxy", "image": "causeway"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "edge", "labels": labels},
        "spec": {"selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    kubectl.apply(&deployment.to_string()).ok();
    finds(&world, &["✗ no pod runs: Deployment edge has none"]);
    let made = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "edge-x", "labels": labels}, "spec": pod,
    });
    kubectl.apply(&made.to_string()).ok();
    let waiting = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "proxy", "image": "causeway", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
    }]}})
    .to_string();
    kubectl.ok(&["patch", "pod", "edge-x", "--subresource=status", "--type", "merge", "-p", &waiting]);
    let attachment = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "vlan"}, "spec": {"config": "{}"},
    });
    kubectl.apply(&attachment.to_string()).ok();
    let account = "system:serviceaccount:crossing:edge-proxy";
    finds(
        &world,
        &[
            "✗ Deployment edge has 0 of 1 pods ready",
            "✗ pod edge-x container proxy waits\n    ErrImagePull: no such image",
            "✓ NetworkAttachmentDefinition crossing/vlan exists",
            "✗ pod edge-x is not attached to crossing/vlan",
            &format!("✗ {account} may not watch proxyservers in namespace crossing"),
            &format!("✗ {account} may not watch services in namespace crossing"),
            &format!("✗ {account} may not watch endpointslices in namespace crossing"),
        ],
    );

    let ready = json!({"status": {"readyReplicas": 1, "replicas": 1}}).to_string();
    kubectl.ok(&["patch", "deployment", "edge", "--subresource=status", "--type", "merge", "-p", &ready]);
    let runs = json!({"status": {"containerStatuses": [{
        "name": "proxy", "image": "causeway", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}},
    }]}})
    .to_string();
    kubectl.ok(&["patch", "pod", "edge-x", "--subresource=status", "--type", "merge", "-p", &runs]);
    let networks = r#"k8s.v1.cni.cncf.io/network-status=[{"name":"crossing/vlan","ips":["192.0.2.4"]}]"#;
    kubectl.ok(&["annotate", "pod", "edge-x", networks]);
    grant_rights(&world);
    finds(
        &world,
        &[
            "✓ Deployment edge has 1 of 1 pods ready",
            "✓ pod edge-x is attached to crossing/vlan",
            &format!("✓ {account} may watch proxyservers in namespace crossing"),
            &format!("✓ {account} may watch services in namespace crossing"),
            &format!("✓ {account} may watch endpointslices in namespace crossing"),
        ],
    );
    assert!(!doctor(&world).contains("waits"));
}

#[test]
fn routes_and_doctor_know_what_is_not_granted() {
    let world = World::new();
    let elsewhere = world.server.namespace("elsewhere");
    let mut far = backend("far", "far.test");
    far["targetNamespace"] = "elsewhere".into();
    world.proxy_server(&[far]).ok();
    let refusal = "does not let ProxyServers of namespace crossing use its Service far";
    finds(&world, &[refusal]);
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": {"name": "proxies"},
        "spec": {"from": [{"group": "causeway.dev", "kind": "ProxyServer", "namespace": NAMESPACE}],
                 "to": [{"group": "", "kind": "Service"}]},
    });
    elsewhere.apply(&grant.to_string()).ok();
    finds(&world, &["there is no Service elsewhere/far"]);
    assert!(!doctor(&world).contains(refusal));
}
