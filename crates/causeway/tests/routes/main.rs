//! `TLSRoute` and `TCPRoute` with a `ProxyServer` as their parent, through the whole product: API server, operator, node,
//! engine. `CAUSEWAY_ROUTES=10000` makes a measurement of the second test.

#![allow(clippy::unwrap_used, clippy::panic)]

mod client;

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, finish};
use causeway_testkit::server::{Server, program};
use futures::{StreamExt, stream};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use client::{ask, speaking};

/// A Service of that name whose only endpoint answers everybody with the name.
fn service(kubectl: &Kubectl, name: &'static str) {
    let port = speaking(TcpListener::bind("127.0.0.1:0").unwrap(), name);
    kubectl.loopback_service(name, port);
}

fn proxy(kubectl: &Kubectl, address: &str, from: &str) {
    let manifest = format!(
        "apiVersion: causeway.dev/v1alpha1
kind: ProxyServer
metadata: {{name: edge}}
spec:
  networkConfig: {{serverIP: {address}}}
  port: 8443
  ports: [{{port: 5432, protocol: TCP}}]
  allowedRoutes: {{namespaces: {{from: {from}}}}}
"
    );
    kubectl.apply(&manifest).ok();
}

fn route(kind: &str, name: &str, namespace: &str, hostname: &str, backend: &str) -> Value {
    let mut route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "parentRefs": [{"group": "causeway.dev", "kind": "ProxyServer", "name": "edge", "namespace": namespace}],
            "rules": [{"backendRefs": [{"name": backend, "port": 443}]}],
        },
    });
    if kind == "TLSRoute" {
        route["spec"]["hostnames"] = json!([hostname]);
    }
    route
}

fn said(kubectl: &Kubectl, route: &str, condition: &str, field: &str) -> String {
    kubectl.value(route, &format!(".status.parents[0].conditions[?(@.type=='{condition}')].{field}"))
}

#[test]
fn routes_of_the_targets_namespace_are_its_consent() {
    let server = Server::start(&[]);
    let here = server.namespace("edge");
    let there = server.namespace("apps");
    service(&there, "web");
    service(&there, "db");
    service(&there, "secret");
    proxy(&here, "127.79.0.1", "Same");
    there.apply(&route("TLSRoute", "web", "edge", "web.test", "web").to_string()).ok();
    eventually("the route is told that it may not attach", PATIENCE, || {
        said(&there, "tlsroute/web", "Accepted", "reason") == "NotAllowedByListeners"
    });

    proxy(&here, "127.79.0.1", "All");
    there.apply(&route("TCPRoute", "db", "edge", "", "db").to_string()).ok();
    let (tls, tcp): (SocketAddr, SocketAddr) =
        ("127.79.0.1:8443".parse().unwrap(), "127.79.0.1:5432".parse().unwrap());
    eventually("the TLSRoute is served", PATIENCE, || ask(tls, Some("web.test")) == "web");
    eventually("the TCPRoute is served", PATIENCE, || ask(tcp, None) == "db");
    assert_eq!(ask(tls, Some("other.test")), "", "a name that nobody has is refused");
    for (route, condition) in [("tlsroute/web", "Accepted"), ("tcproute/db", "ResolvedRefs")] {
        eventually("the routes say so", PATIENCE, || said(&there, route, condition, "status") == "True");
    }
    assert_eq!(there.value("tlsroute/web", ".status.parents[0].controllerName"), "causeway.dev/proxy");
    eventually("the proxy is ready with routes alone", PATIENCE, || {
        here.value("proxyserver/edge", ".status.conditions[?(@.type=='Ready')].status") == "True"
    });
    assert_eq!(here.value("proxyserver/edge", ".status.supply.routes"), "2");
    eventually("the Service in front has their ports", PATIENCE, || {
        here.value("service/edge", ".spec.ports[*]['name','port']") == "proxy-5432 proxy 5432 8443"
    });

    // What the account of the pods, which any pod of the namespace may use, can see.
    let account = "system:serviceaccount:edge:edge-proxy";
    for (namespace, what, visible) in [
        ("apps", "services", false),
        ("apps", "service/web", false),
        ("apps", "endpointslices.discovery.k8s.io", false),
        ("apps", "tlsroutes", false),
        ("edge", "supplies", true),
        ("edge", "secrets", false),
    ] {
        let ran = server.kubectl().run(&["get", what, "-n", namespace, "--as", account]);
        assert_eq!(ran.code == Some(0), visible, "{what} in {namespace}: {}{}", ran.stdout, ran.stderr);
    }
    let supplied = here.ok(&["get", "supplies", "-o", "jsonpath={..services[*].service.metadata.name}"]);
    assert_eq!(supplied, "db web", "a Service that no route names is not handed out");

    // Ready in the words of its Service, and nobody is there.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    there.loopback_service("gone", free);
    there.apply(&route("TLSRoute", "gone", "edge", "gone.test", "gone").to_string()).ok();
    let examine = || {
        let mut doctor = Command::new(program());
        finish(doctor.args(["doctor", "proxy/edge", "-n", "edge"]).env("KUBECONFIG", server.kubeconfig()))
            .stdout
    };
    eventually("doctor tries the names of routes, and says why one leads nowhere", PATIENCE, || {
        let cure = format!("its endpoint 127.0.0.1:{free} refuses connections");
        let said = examine();
        said.lines().any(|line| line.starts_with("✗ gone.test on ") && line.contains("127.79.0.1:8443"))
            && said.contains(&cure)
    });
    assert!(
        examine()
            .lines()
            .any(|line| line.starts_with("✓ a connection on ") && line.contains("127.79.0.1:5432"))
    );
    there.ok(&["delete", "tlsroute", "gone"]);

    // The older of two that claim a name has it.
    there.apply(&route("TLSRoute", "late", "edge", "web.test", "secret").to_string()).ok();
    eventually("the younger is told whose the name is", PATIENCE, || {
        said(&there, "tlsroute/late", "Accepted", "message").contains("is that of TLSRoute apps/web")
    });
    assert_eq!(ask(tls, Some("web.test")), "web");
    there.ok(&["delete", "tlsroute", "web"]);
    eventually("and has it when the older is gone", PATIENCE, || ask(tls, Some("web.test")) == "secret");

    // A spec that is refused takes nothing from the one that runs: not its endpoints, not its routes, and no grant is kept.
    eventually("the spec is kept", PATIENCE, || {
        here.value("proxyserver/edge", ".status.acceptedGeneration") == "2"
    });
    let ports = r#"{"spec":{"ports":[{"port":5432,"protocol":"TCP"},{"port":9901}]}}"#;
    here.ok(&["patch", "proxyserver", "edge", "--type=merge", "-p", ports]);
    eventually("the spec is refused", PATIENCE, || {
        here.value("proxyserver/edge", ".status.conditions[?(@.type=='Ready')].reason") == "InvalidSpec"
    });
    let moved = speaking(TcpListener::bind("127.0.0.1:0").unwrap(), "moved");
    there.loopback_service("secret", moved);
    eventually("endpoints are followed all the same", PATIENCE, || ask(tls, Some("web.test")) == "moved");
    there.ok(&["delete", "tlsroute", "late"]);
    eventually("and so are routes", PATIENCE, || ask(tls, Some("web.test")).is_empty());
    there.apply(&route("TLSRoute", "late", "edge", "web.test", "secret").to_string()).ok();
    eventually("also new ones", PATIENCE, || ask(tls, Some("web.test")) == "moved");

    here.ok(&["delete", "proxyserver", "edge", "--timeout=60s"]);
    eventually("a proxy that is gone is in no route's status", PATIENCE, || {
        there.value("tlsroute/late", ".status.parents").trim_matches(['[', ']']).is_empty()
    });
}

#[test]
fn many_routes_are_served_and_one_edit_is_quick() {
    let count: usize = std::env::var("CAUSEWAY_ROUTES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let server = Server::start(&[]);
    let kubectl = server.namespace("edge");
    service(&kubectl, "web");
    proxy(&kubectl, "127.79.0.2", "Same");
    let at: SocketAddr = "127.79.0.2:8443".parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let routes = runtime.block_on(api(&server));
    let name = |i: usize| format!("r{i}.many.test");
    let started = Instant::now();
    runtime.block_on(async {
        let create = |i: usize| {
            let route = route("TLSRoute", &format!("r{i}"), "edge", &name(i), "web");
            let (routes, route) = (routes.clone(), serde_json::from_value(route).unwrap());
            async move { routes.create(&PostParams::default(), &route).await.unwrap() }
        };
        stream::iter(0..count).map(create).buffer_unordered(16).for_each(|_| async {}).await;
    });
    let created = started.elapsed();
    let limit = PATIENCE + created * 4;
    eventually("every route is counted", limit, || {
        kubectl.value("proxyserver/edge", ".status.supply.routes") == count.to_string()
    });
    for i in (0..count).step_by(count.div_ceil(500)) {
        eventually("every route is served", limit, || ask(at, Some(&name(i))) == "web");
    }
    let served = started.elapsed();
    eventually("every route says so", limit, || {
        let all = runtime.block_on(routes.list(&kube::api::ListParams::default())).unwrap();
        let accepted = |route: &DynamicObject| {
            route.data.pointer("/status/parents/0/conditions/0/status") == Some(&json!("True"))
        };
        all.iter().filter(|route| accepted(route)).count() == count
    });
    let told = started.elapsed();
    let parts = kubectl.ok(&["get", "supplies", "-o", "name"]).lines().count();

    let mut edits = Vec::new();
    for round in 0..5 {
        let edited = Instant::now();
        let hostname = format!("edited-{round}.many.test");
        let patch = json!({"spec": {"hostnames": [hostname]}});
        runtime.block_on(routes.patch("r7", &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
        eventually("the edit is served", PATIENCE, || ask(at, Some(&hostname)) == "web");
        edits.push(edited.elapsed());
    }
    edits.sort_unstable();
    println!(
        "{count} routes in {parts} parts: created in {created:.1?}, served after {served:.1?}, told after {told:.1?}; an \
         edit in {:.0?} (slowest {:.0?}); memory {}",
        edits[2],
        edits[4],
        memory(&server)
    );
    assert!(edits[2] < Duration::from_secs(5), "{edits:?}");
}

async fn api(server: &Server) -> Api<DynamicObject> {
    let kubeconfig = kube::config::Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "TLSRoute");
    let resource = ApiResource::from_gvk_with_plural(&kind, "tlsroutes");
    Api::namespaced_with(Client::try_from(config).unwrap(), "edge", &resource)
}

/// What the control plane and the proxy hold in memory.
fn memory(server: &Server) -> String {
    let data = server.data_dir().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| std::fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let line = read("cmdline").replace('\0', " ");
        let is_ours = line.contains("--proxy-name edge") || (line.contains(" up ") && line.contains(&data));
        let status = read("status");
        if let Some(kib) = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).filter(|_| is_ours) {
            let what = if line.contains(" up ") { "up" } else { "proxy" };
            found.push(format!("{what} {}", kib.trim()));
        }
    }
    found.join(", ")
}
