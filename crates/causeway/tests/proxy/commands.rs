//! `causeway routes` and `causeway doctor`.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::peer::TlsBackend;
use crate::world::{NAMESPACE, World, backend};

#[test]
fn routes_and_doctor_tell_where_names_lead() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);

    let table = world.causeway(&["routes", "proxy/edge", "-n", "crossing"]).ok();
    let line = table.lines().find(|l| l.contains("one.test")).unwrap();
    for part in ["8443", "one", &one.address.to_string(), "1 of 1 ready"] {
        assert!(line.contains(part), "{part} in {table}");
    }
    assert!(table.contains("(plaintext)") && table.contains("closed"), "{table}");
    let json = world.causeway(&["routes", "proxy/edge", "-n", "crossing", "-o", "json"]).ok();
    let rows: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["backend"], "one");
    assert_eq!(rows[0]["connections"], 0);

    let doctor = world.causeway(&["doctor", "proxy/edge", "-n", "crossing"]);
    for line in [
        "✓ the spec is valid, with 1 backends".to_owned(),
        format!("✓ proxy edge-0 serves on {}", world.at(8443)),
        "✓ backend one has 1 ready endpoints".to_owned(),
        format!("✓ one.test on {} reaches one, whose certificate is for one.test", world.at(8443)),
        format!("✓ an unknown name on {} is refused (TLS alert unrecognized_name)", world.at(8443)),
        format!("✓ plaintext on {} is refused", world.at(8443)),
    ] {
        assert!(doctor.stdout.contains(&line), "{line} in {doctor}");
    }

    let missing = world.causeway(&["doctor", "proxy/nobody", "-n", "crossing"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stdout.contains("✗ there is no ProxyServer crossing/nobody"), "{missing}");
    let missing = world.causeway(&["routes", "proxy/nobody", "-n", "crossing"]).fails();
    assert!(missing.contains("there is no ProxyServer nobody"), "{missing}");
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
    finds(&world, &["- the status names no Deployment", "- no NetworkAttachmentDefinition is asked for"]);

    let patch = json!({"spec": {"networkConfig": {"networkAttachmentName": "vlan"}}}).to_string();
    kubectl.ok(&["patch", "proxyserver", "edge", "--type", "merge", "-p", &patch]);
    let status = json!({"status": {"deploymentName": "edge"}}).to_string();
    kubectl.ok(&["patch", "proxyserver", "edge", "--subresource=status", "--type", "merge", "-p", &status]);
    finds(&world, &["✗ its Deployment is gone", "✗ there is no NetworkAttachmentDefinition crossing/vlan"]);

    let labels = json!({"app": "edge"});
    let pod =
        json!({"serviceAccountName": "edge-proxy", "containers": [{"name": "proxy", "image": "causeway"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "edge"},
        "spec": {"selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    kubectl.apply(&deployment.to_string()).ok();
    let made = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "edge-x", "labels": labels}, "spec": pod,
    });
    kubectl.apply(&made.to_string()).ok();
    let waiting = json!({"status": {"containerStatuses": [{
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
    for (role, what) in [("own", "proxyservers.causeway.dev"), ("targets", "services,endpointslices")] {
        kubectl.ok(&["create", "role", role, "--verb=get,list,watch", &format!("--resource={what}")]);
        let (role, account) = (format!("--role={role}"), "--serviceaccount=crossing:edge-proxy");
        kubectl.ok(&["create", "rolebinding", &role["--role=".len()..], &role, account]);
    }
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
