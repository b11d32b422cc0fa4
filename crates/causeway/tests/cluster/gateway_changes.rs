//! A Gateway with two pods under load while its routes and certificates change, and while its pods are replaced.

use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use futures::{StreamExt as _, stream};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::gateway_load::{
    HOST, Load, Streams, Target, calls, certificate, header_of, is_served, on_node, server,
};
use crate::world::{PATIENCE, World, cluster};

const GROUP: &str = "gateway.networking.k8s.io/v1";
/// Edits of routes, changes of the certificate, and how many are asked for at a time.
const EDITS: usize = 900;
const CERTIFICATES: usize = 100;
const AT_ONCE: usize = 8;
const ROUTES: usize = 20;
/// How long pods let connections end.
const DRAIN: Duration = Duration::from_secs(30);
/// What a change takes to be seen everywhere, and a sweep to see that a time is over.
const STEP: Duration = Duration::from_secs(3);
/// Says which edit of its route answered.
const EDIT: &str = "x-edit";
/// Of listeners that are removed while streams are open there.
const LEAVING: [u16; 2] = [8080, 8443];

fn host(route: usize) -> String {
    if route == 0 { HOST.to_owned() } else { format!("r{route}.example.com") }
}

/// A route after so many edits: weights and headers change with each, every other one puts a rule before those that have
/// all requests and streams, or takes it away, and in the second half of all edits the rules have names, so that the ones
/// without are gone.
fn route(number: usize, edit: usize) -> Value {
    let told = json!([{
        "type": "ResponseHeaderModifier",
        "responseHeaderModifier": {"set": [{"name": EDIT, "value": edit.to_string()}]},
    }]);
    let mut all = json!({
        "backendRefs": [
            {"name": "shop", "port": 80, "weight": 1 + edit % 7}, {"name": "cart", "port": 80, "weight": edit % 3},
        ],
        "filters": told,
    });
    let mut calls = json!({
        "matches": [{"path": {"value": "/calls"}}], "backendRefs": [{"name": "calls", "port": 80}],
        "filters": told,
    });
    let path = format!("/only/{edit}");
    let mut only = json!({
        "matches": [{"path": {"value": path}}], "backendRefs": [{"name": "cart", "port": 80}],
    });
    if edit >= EDITS / 2 {
        (all["name"], calls["name"]) = (json!("all"), json!("calls"));
        only["name"] = json!(format!("only-{edit}"));
    }
    let rules = if edit / ROUTES % 2 == 1 { vec![only, calls, all] } else { vec![calls, all] };
    json!({
        "apiVersion": GROUP, "kind": "HTTPRoute", "metadata": {"name": format!("r{number}")},
        "spec": {"parentRefs": [{"name": "web"}], "hostnames": [host(number)], "rules": rules},
    })
}

/// A certificate for the host by this authority, as a Secret, and what clients are shown of it.
fn secret(authority: &Issuer<'_, KeyPair>) -> (Value, Vec<u8>) {
    let key = KeyPair::generate().unwrap();
    let made = CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "site"}, "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": made.pem(), "tls.key": key.serialize_pem()},
    });
    (secret, made.der().to_vec())
}

/// Listeners of these names for HTTP and HTTPS, and with `leaving` two more.
fn listeners([clear, sealed]: [&str; 2], leaving: bool) -> Value {
    let http = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "HTTP"});
    let https = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "site"}]}});
    let mut listeners = vec![http(clear, 80), https(sealed, 443)];
    if leaving {
        let more = |name: &str| format!("{name}-leaving");
        listeners.extend([http(&more(clear), LEAVING[0]), https(&more(sealed), LEAVING[1])]);
    }
    Value::Array(listeners)
}

/// Gives the Gateway other listeners, and waits until every pod has them.
fn listen(world: &World, listeners: &Value) {
    let patch = json!({"spec": {"listeners": listeners}}).to_string();
    world.kubectl.ok(&["patch", "gateway", "web", "--type=merge", "-p", &patch]);
    eventually("every pod has these listeners", PATIENCE, || {
        let text = world.kubectl.ok(&["get", "gateway/web", "-o", "json"]);
        let gateway: Value = serde_json::from_str(&text).unwrap();
        let conditions = gateway["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let has = conditions.iter().any(|condition| {
            condition["type"] == "Programmed"
                && condition["status"] == "True"
                && condition["observedGeneration"] == gateway["metadata"]["generation"]
        });
        if has { Ok(()) } else { Err(text) }
    });
}

/// The Gateway, its Services and how it is run.
fn objects(address: std::net::Ipv4Addr, ports: [(&str, u16); 3]) -> Vec<Value> {
    let mut objects = vec![
        json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters", "metadata": {"name": "two"},
            "spec": {"replicas": 2},
        }),
        json!({
            "apiVersion": GROUP, "kind": "Gateway", "metadata": {"name": "web"},
            "spec": {
                "gatewayClassName": "causeway",
                "infrastructure": {
                    "parametersRef": {"group": "causeway.dev", "kind": "GatewayParameters", "name": "two"},
                },
                "listeners": listeners(["http", "https"], true),
            },
        }),
    ];
    for (name, port) in ports {
        let speaks = (name == "calls").then_some("kubernetes.io/h2c");
        objects.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"port": 80, "appProtocol": speaks}]},
        }));
        objects.push(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"port": port}], "endpoints": [{"addresses": [address]}],
        }));
    }
    objects
}

/// The API of a kind in the namespace of a world.
async fn api(world: &World, kind: &str) -> Api<DynamicObject> {
    let kubeconfig = Kubeconfig::read_from(cluster().unwrap().kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let kind = match kind {
        "Secret" => GroupVersionKind::gvk("", "v1", kind),
        _ => GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind),
    };
    let client = Client::try_from(config).unwrap();
    Api::namespaced_with(client, &world.kubectl.namespace, &ApiResource::from_gvk(&kind))
}

/// The Gateway's pods that are there.
fn pods(world: &World) -> Vec<String> {
    let names = world.kubectl.ok(&["get", "pods", "-l", "app=gateway", "-o", "name"]);
    names.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_thousand_changes_and_a_restart_under_load_fail_no_request_and_cut_no_stream() {
    let Some(world) = World::new("gateway-changes") else { return };
    let (there, target, authority) = scene(&world);
    let served =
        |number: usize, edit: usize| header_of(&there, &target, host(number), EDIT) == Some(edit.to_string());
    eventually("every route is served", PATIENCE, || (0..ROUTES).all(|number| served(number, 0)));
    eventually("TLS is served", PATIENCE, || certificate(&there, &target).is_some());
    let leaving = target.at(LEAVING);
    eventually("so are the listeners that go", PATIENCE, || {
        is_served(&there, &leaving) && certificate(&there, &leaving).is_some()
    });
    let before = pods(&world);
    assert_eq!(before.len(), 2, "{before:?}");

    let load = Load::start(&there, &target);
    let (streams, orphans) = (Streams::open(&there, &target), Streams::open(&there, &leaving));
    let opened = streams.count() + orphans.count();
    let go_on = || {
        streams.go_on();
        orphans.go_on();
    };
    go_on();
    let since = Instant::now();
    let here = Runtime::new().unwrap();
    let shown = here.block_on(change(&world, &authority));
    let asked = since.elapsed();
    let last = |number: usize| (EDITS - 1 - number) / ROUTES * ROUTES + number;
    eventually("the last edit of each route is served by every pod", PATIENCE, || {
        (0..8).all(|_| (0..ROUTES).all(|number| served(number, last(number))))
    });
    eventually("the last certificate is shown by every pod", PATIENCE, || {
        (0..8).all(|_| certificate(&there, &target).as_ref() == Some(&shown))
    });
    println!(
        "{} changes asked for in {asked:.1?}, all served after {:.1?}",
        EDITS + CERTIFICATES,
        since.elapsed()
    );
    go_on();
    listen(&world, &listeners(["web", "secure"], true));
    go_on();
    listen(&world, &listeners(["web", "secure"], false));
    eventually("a listener that was removed takes nobody", PATIENCE, || !is_served(&there, &leaving));
    let (changed, removed) = (since.elapsed(), Instant::now());
    // Their rules, routes and listeners are others by now, or gone: what those have of time to drain is over then.
    while removed.elapsed() < DRAIN + STEP {
        go_on();
    }
    let (carried, cut) = orphans.close(&there);
    let (at_changes, restart) = (load.answered(), Instant::now());
    assert_eq!((cut, pods(&world)), (vec![], before.clone()), "no pod is replaced for that");

    let (more, cut) = roll(&world, (&there, &target), streams, &before);
    let answered = load.answered();
    let failures = load.stop(&there);
    println!(
        "{answered} requests ({at_changes} in {changed:.1?} of changes and the time to drain, the rest in {:.1?} of a restart), \
         {} failed; {} messages in {opened} streams and those after the restart, {} cut",
        restart.elapsed(),
        failures.len(),
        carried + more,
        cut.len(),
    );
    assert_eq!((failures, cut), (vec![], vec![]));
}

/// Replaces all pods under streams that are open; how many messages these and later ones carried, and which were cut.
fn roll(
    world: &World,
    (there, target): (&Runtime, &Target),
    streams: Streams,
    before: &[String],
) -> (usize, Vec<String>) {
    world.kubectl.ok(&["rollout", "restart", "deployment/web-causeway"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web-causeway", "--timeout=60s"]);
    // The pods that they are on are on their way out, and leave them their time.
    streams.go_on();
    let (carried, mut cut) = streams.close(there);
    // Nobody uses them any more, for those who ask were told to ask elsewhere.
    let free = Instant::now();
    eventually("pods that nobody uses any more are gone", PATIENCE, || {
        let now = pods(world);
        if now.len() == 2 && now.iter().all(|pod| !before.contains(pod)) {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    });
    let freed = free.elapsed();
    assert!(freed < DRAIN / 2, "the pods went only after {freed:.1?}");
    let streams = Streams::open(there, target);
    streams.go_on();
    let (more, cut_later) = streams.close(there);
    cut.extend(cut_later);
    (carried + more, cut)
}

/// Everything at its start: threads beside the cluster, where clients find the Gateway, and who signs its certificates.
fn scene(world: &World) -> (Runtime, Target, Issuer<'static, KeyPair>) {
    let (there, address) = on_node();
    let ports =
        [("shop", server(&there, "shop")), ("cart", server(&there, "cart")), ("calls", calls(&there))];
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let authority = Issuer::new(params, key);
    let mut objects = objects(address, ports);
    objects.push(secret(&authority).0);
    objects.extend((0..ROUTES).map(|number| route(number, 0)));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    world.kubectl.apply(&list.to_string()).ok();
    world.wait("gateway/web", "Programmed");
    world.kubectl.ok(&["rollout", "status", "deployment/web-causeway", "--timeout=60s"]);
    let target = Target::new(&world.kubectl.value("gateway/web", ".status.addresses[0].value"), &pem);
    (there, target, authority)
}

/// Makes all changes, as fast as they are taken; the certificate that is the last.
async fn change(world: &World, authority: &Issuer<'_, KeyPair>) -> Vec<u8> {
    let (routes, secrets) = (api(world, "HTTPRoute").await, api(world, "Secret").await);
    let edit = |edit: usize| {
        let routes = routes.clone();
        async move {
            let number = edit % ROUTES;
            let patch = json!({"spec": route(number, edit)["spec"]});
            let params = PatchParams::default();
            routes.patch(&format!("r{number}"), &params, &Patch::Merge(&patch)).await.unwrap();
        }
    };
    let edits = stream::iter(0..EDITS).map(edit).buffer_unordered(AT_ONCE).for_each(async |()| {});
    let renewals = async {
        let mut shown = Vec::new();
        for _ in 0..CERTIFICATES {
            let (patch, certificate) = secret(authority);
            secrets.patch("site", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            shown = certificate;
        }
        shown
    };
    futures::join!(edits, renewals).1
}
