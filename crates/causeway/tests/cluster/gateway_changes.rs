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

use crate::gateway_load::{HOST, Load, Streams, Target, certificate, header_of, on_node, server};
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

fn host(route: usize) -> String {
    if route == 0 { HOST.to_owned() } else { format!("r{route}.example.com") }
}

/// A route after so many edits: weights and headers change with each, every other one puts a rule before the one that has
/// all requests and streams, or takes it away, and in the second half of all edits the rules have names, so that the ones
/// without are gone.
fn route(number: usize, edit: usize) -> Value {
    let mut all = json!({
        "backendRefs": [
            {"name": "shop", "port": 80, "weight": 1 + edit % 7}, {"name": "cart", "port": 80, "weight": edit % 3},
        ],
        "filters": [{
            "type": "ResponseHeaderModifier",
            "responseHeaderModifier": {"set": [{"name": EDIT, "value": edit.to_string()}]},
        }],
    });
    let path = format!("/only/{edit}");
    let mut only = json!({
        "matches": [{"path": {"value": path}}], "backendRefs": [{"name": "cart", "port": 80}],
    });
    if edit >= EDITS / 2 {
        (all["name"], only["name"]) = (json!("all"), json!(format!("only-{edit}")));
    }
    let rules = if edit / ROUTES % 2 == 1 { vec![only, all] } else { vec![all] };
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

/// The Gateway, its Services and how it is run.
fn objects(address: std::net::Ipv4Addr, ports: [(&str, u16); 2]) -> Vec<Value> {
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
                "listeners": [
                    {"name": "http", "port": 80, "protocol": "HTTP"},
                    {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "site"}]}},
                ],
            },
        }),
    ];
    for (name, port) in ports {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]},
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
fn a_thousand_changes_and_a_restart_under_load_fail_no_request_and_cut_no_websocket() {
    let Some(world) = World::new("gateway-changes") else { return };
    let (there, address) = on_node();
    let ports = [("shop", server(&there, "shop")), ("cart", server(&there, "cart"))];
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
    let served =
        |number: usize, edit: usize| header_of(&there, &target, host(number), EDIT) == Some(edit.to_string());
    eventually("every route is served", PATIENCE, || (0..ROUTES).all(|number| served(number, 0)));
    eventually("TLS is served", PATIENCE, || certificate(&there, &target).is_some());
    let before = pods(&world);
    assert_eq!(before.len(), 2, "{before:?}");

    let load = Load::start(&there, &target);
    let streams = Streams::open(&there, &target);
    streams.go_on();
    let since = Instant::now();
    let here = tokio::runtime::Runtime::new().unwrap();
    let shown = here.block_on(change(&world, &authority));
    let (asked, removed) = (since.elapsed(), Instant::now());
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
    streams.go_on();
    let changed = since.elapsed();
    // The rule that they are on went long before: what it has of time to drain is over.
    while removed.elapsed() < DRAIN + STEP {
        streams.go_on();
    }
    let (at_changes, restart) = (load.answered(), Instant::now());
    assert_eq!(pods(&world), before, "no pod is replaced for that");

    world.kubectl.ok(&["rollout", "restart", "deployment/web-causeway"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web-causeway", "--timeout=60s"]);
    // The pods that they are on are on their way out, and leave them their time.
    streams.go_on();
    let (carried, cut) = streams.close(&there);
    // Nobody uses them any more, for those who ask were told to ask elsewhere.
    let free = Instant::now();
    eventually("pods that nobody uses any more are gone", PATIENCE, || {
        let now = pods(&world);
        if now.len() == 2 && now.iter().all(|pod| !before.contains(pod)) {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    });
    let freed = free.elapsed();
    let streams = Streams::open(&there, &target);
    streams.go_on();
    let (more, cut_later) = streams.close(&there);
    let answered = load.answered();
    let failures = load.stop(&there);
    println!(
        "{answered} requests ({at_changes} in {changed:.1?} of changes, the rest in {:.1?} of a restart), {} failed; {} \
         messages in 14 streams, {} cut",
        restart.elapsed(),
        failures.len(),
        carried + more,
        cut.len() + cut_later.len(),
    );
    assert_eq!((failures, cut, cut_later), (vec![], vec![], vec![]));
    assert!(freed < DRAIN / 2, "the pods went only after {freed:.1?}");
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
