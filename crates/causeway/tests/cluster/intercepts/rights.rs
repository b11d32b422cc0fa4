//! What an intercept may not do, how long it lasts, and who else has a say.

use causeway_link::{Authority, Key, Role};
use causeway_netstack::wireguard::SecretKey;
use causeway_stowaway::workstation_name;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use serde_json::json;

use super::laptop::{Laptop, answers, others};
use super::thief::{fetches, links};
use super::{nothing_is_left, says};
use crate::world::{PATIENCE, World, cluster, there};

fn request(world: &World, name: &str, spec: serde_json::Value) {
    let object = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest", "metadata": {"name": name}, "spec": spec,
    });
    world.kubectl.apply(&object.to_string()).ok();
}

#[test]
fn who_forbids_it_is_obeyed_and_who_sets_it_back_is_told() {
    let Some(world) = World::new("obeyed") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let load = others(&address);
    let laptop = Laptop::new(&world, "lap", 13_021);
    laptop.connect("link");

    // One that will be forgotten.
    let brief = ["--header", "x-user=brief", "--ttl", "1m", "--name", "brief"];
    laptop.intercept("deploy/web", &brief).ok();

    // Whoever owns the workload, or the namespace, may forbid it: at once.
    let label = ["causeway.dev/intercept=deny", "causeway.dev/intercept-"];
    laptop.intercept_mine("deploy/web").ok();
    eventually("the rules of the node follow", PATIENCE, || answers(&address, Some("lap"), "lap"));
    let namespace = format!("namespace/{}", world.kubectl.namespace);
    for (object, at_once) in [("deployment/web", false), (&namespace, false), ("deployment/web", true)] {
        load.note(&format!("{object} forbids it"));
        world.kubectl.ok(&["label", object, label[0]]);
        let message = says(&world, "web-8080-lap", "Accepted", "Denied");
        assert!(message.contains("causeway.dev/intercept: deny"), "{message}");
        if !at_once {
            eventually("the original answers", PATIENCE, || answers(&address, Some("lap"), "web"));
        }
        world.kubectl.ok(&["label", object, label[1]]);
        says(&world, "web-8080-lap", "Ready", "Ready");
        eventually("it may again", PATIENCE, || answers(&address, Some("lap"), "lap"));
    }

    // Somebody cleans up.
    load.note("the Service of the original pods is deleted");
    let twin = || {
        world.kubectl.run(&["get", "service/web-carrier-original", "-o", "jsonpath={.metadata.uid}"]).stdout
    };
    let before = twin();
    world.kubectl.ok(&["delete", "service/web-carrier-original"]);
    eventually("it is made again", PATIENCE, || ![String::new(), before.clone()].contains(&twin()));
    load.goes_on(100);
    answers(&address, Some("lap"), "lap").unwrap();

    // A tool applies the Service from its repository, and again.
    let applied = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    for round in 0..2 {
        load.note("the Service is applied again");
        let how =
            ["apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", "-"];
        world.kubectl.with_input(&applied.to_string(), &how).ok();
        let message = says(&world, "web-8080-lap", "Installed", "TakenBack");
        assert!(message.contains("argocd-controller"), "{round}: {message}");
        says(&world, "web-8080-lap", "Ready", "Ready");
        eventually("it is taken over again", PATIENCE, || answers(&address, Some("lap"), "lap"));
    }
    laptop.run(&["leave", "web-8080-lap"]).ok();
    eventually("the one that was forgotten ends by itself", 2 * PATIENCE, || {
        let left = world.kubectl.ok(&["get", "interceptrequests", "-o", "name"]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    answers(&address, Some("brief"), "web").unwrap();
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    laptop.run(&["disconnect"]).ok();
    nothing_is_left(&world);
    load.goes_on(50);
    load.end_well("of others");
}

#[test]
fn a_machine_of_another_namespace_needs_that_ones_consent() {
    let Some(world) = World::new("consent") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let lab = cluster().unwrap().namespace("consent-lab");
    let laptop = Laptop::new(&world, "lap", 13_031).of(&lab.namespace);
    laptop.connect("link");
    let header = json!([{"headers": [{"name": "x-user", "value": "lap"}]}]);
    let spec = json!({
        "target": "deploy/web", "targetContainerPort": 8080, "workstation": format!("{}/lap", lab.namespace),
        "destinationPort": laptop.port, "match": header,
    });
    request(&world, "me", spec);
    let message = says(&world, "me", "Accepted", "RefNotPermitted");
    assert!(message.contains("ReferenceGrant"), "{message}");
    answers(&address, Some("lap"), "web").unwrap();
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": {"name": "intercepts"},
        "spec": {
            "from": [{"group": "causeway.dev", "kind": "InterceptRequest", "namespace": world.kubectl.namespace}],
            "to": [{"group": "causeway.dev", "kind": "Workstation", "name": "lap"}],
        },
    });
    lab.apply(&grant.to_string()).ok();
    says(&world, "me", "Ready", "Ready");
    eventually("it may", PATIENCE, || answers(&address, Some("lap"), "lap"));
    // Consent that is taken back counts at once.
    lab.ok(&["delete", "referencegrant", "intercepts"]);
    says(&world, "me", "Accepted", "RefNotPermitted");
    eventually("the original answers", PATIENCE, || answers(&address, Some("lap"), "web"));
    world.kubectl.ok(&["delete", "interceptrequest", "me"]);
    laptop.run(&["disconnect"]).ok();
    nothing_is_left(&world);
    lab.run(&["delete", "namespace", &lab.namespace, "--wait=false"]);
}

#[test]
fn thieves_tenants_and_strangers_get_nowhere() {
    let Some(world) = World::new("thieves") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    for (user, role) in [("editor", "edit"), ("tenant", "admin")] {
        let (role, name) = (format!("--clusterrole={role}"), format!("--user={user}"));
        world.kubectl.ok(&["create", "rolebinding", user, &role, &name]);
    }
    let (victim, thief) = (Laptop::new(&world, "victim", 13_065), Laptop::bare(&world, "thief", 13_066));
    let proxy = "127.0.0.1:13067";
    victim.run(&["connect", "--name", "victim", "--way", "link", "--proxy", proxy]).ok();
    thief.connect("link");

    // Who edits a namespace does not take its traffic.
    let spec = json!({"target": "deploy/web", "targetContainerPort": 8080, "workstation": "victim", "destinationPort": 1});
    let object = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest", "metadata": {"name": "mine"}, "spec": spec,
    });
    let refused = world.kubectl.with_input(&object.to_string(), &["create", "-f", "-", "--as", "editor"]);
    assert!(refused.stderr.contains("orbidden") && refused.stderr.contains("interceptrequests"), "{refused}");

    // A machine reaches Services and pods, and nothing of the nodes or of the cloud.
    let through = |url: &str| {
        let mut curl = cluster().unwrap().on_node("curl");
        curl.args(["-sk", "--max-time", "5", "--noproxy", "", "--proxy", &format!("socks5h://{proxy}"), url]);
        finish(&mut curl).stdout
    };
    eventually("names of the cluster are known", PATIENCE, || through("http://web/").starts_with("web"));
    let pod = world.kubectl.value("pods", ".items[0].status.podIP");
    assert!(through(&format!("http://{pod}:8080/")).starts_with("web"));
    let (_, node) = cluster().unwrap().node_network();
    let node_port = format!("https://{node}:10250/healthz");
    let mut direct = cluster().unwrap().on_node("curl");
    direct.args([
        "-sk",
        "--max-time",
        "5",
        "--noproxy",
        "*",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        &node_port,
    ]);
    assert_ne!(finish(&mut direct).stdout, "000", "somebody is there");
    for url in [
        &node_port,
        "http://127.0.0.1:13065/",
        "http://[::ffff:127.0.0.1]:13065/",
        "http://0.0.0.0:13065/",
        "http://localhost:13065/",
        "http://169.254.169.254/",
        "http://[fd00:ec2::254]/",
    ] {
        assert_eq!(through(url), "", "{url}");
    }

    // An address or a name without its key opens nothing.
    let status = |path: &str| {
        eventually(path, PATIENCE, || {
            Some(world.kubectl.value("workstation/victim", path)).filter(|text| !text.is_empty())
        })
    };
    let (own, hub, endpoint) =
        (status(".status.address"), status(".status.serverPublicKey"), status(".status.endpoint"));
    let fetches = |key: SecretKey| there(|| fetches(key, &hub, &endpoint, &own, &address));
    let key = |laptop: &Laptop| laptop.key("wireguard.key").trim().parse::<SecretKey>().unwrap();
    eventually("its own key fetches a page", PATIENCE, || fetches(key(&victim)));
    assert!(!fetches(SecretKey::generate()), "a stranger with its address");
    assert!(!fetches(key(&thief)), "another machine with its address");
    let link = status(".status.linkEndpoints[0]");
    let (certificate, authority) = (status(".status.certificate"), status(".status.authority"));
    let own = Key::from_pem(&victim.key("link.key")).unwrap().identity(&certificate, &authority).unwrap();
    eventually("its own key has a link", PATIENCE, || there(|| links(&own, &link)));
    let uid = world.kubectl.value("workstation/victim", ".metadata.uid");
    let made_up = Authority::new().unwrap().issue(Role::Dialer, &workstation_name(&uid)).unwrap();
    assert!(!there(|| links(&made_up, &link)), "signed by nobody here");

    // What a tenant makes up is never restored.
    victim.intercept_mine("deploy/web").ok();
    eventually("requests come here", PATIENCE, || answers(&address, Some("victim"), "victim"));
    let original = world.kubectl.value("service/web", ".metadata.annotations.causeway\\.dev/original");
    assert!(original.contains("web"), "{original}");
    let forged = format!("causeway.dev/original={}", original.replace("\"web\"", "\"evil\""));
    for object in ["service/web", "interceptrequest/web-8080-victim"] {
        world.kubectl.ok(&["annotate", object, "--overwrite", &forged, "--as", "tenant"]);
    }
    let patch = r#"{"status":{"originalConfig":{"services":{"web":{"selector":{"app":"evil"}}}}}}"#;
    let how = ["--subresource=status", "--type=merge", "-p", patch, "--as", "tenant"];
    let refused = world.kubectl.run(&[&["patch", "interceptrequest/web-8080-victim"], &how[..]].concat());
    assert!(refused.stderr.contains("orbidden"), "{refused}");
    victim.run(&["leave", "--all"]).ok();
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    eventually("the original answers", PATIENCE, || answers(&address, Some("victim"), "web"));
    for laptop in [&victim, &thief] {
        laptop.run(&["disconnect"]).ok();
    }
    nothing_is_left(&world);
}
