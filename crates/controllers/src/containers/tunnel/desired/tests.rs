//! What is looked up, and what is said of what is missing.

use causeway_base::well_known::SERVICE_NAME_LABEL;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::containers::tunnel::{observe::observe, validate::validate};
use crate::framework::children::{ChildKind, Children};
use crate::framework::kinds::{CONTAINER_NETWORK, ENDPOINT_SLICE, SERVICE};
use crate::grants::REFERENCE_GRANT;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn service(name: &str, spec: Value) -> DynamicObject {
    object(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "dev" }, "spec": spec }),
    )
}

fn slice(service: &str, endpoints: Value) -> DynamicObject {
    object(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{service}-1"), "namespace": "dev", "labels": { SERVICE_NAME_LABEL: service } },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    }))
}

fn network(status: Value) -> DynamicObject {
    object(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetwork",
        "metadata": { "name": "blue", "namespace": "dev" }, "spec": {}, "status": status,
    }))
}

fn world() -> Vec<(ChildKind, Vec<DynamicObject>)> {
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    vec![
        (
            SERVICE,
            vec![
                service("web", json!({ "ports": ports })),
                service(
                    "web-in",
                    json!({ "ports": [{ "name": "other", "port": 1, "protocol": "UDP" }, { "name": "in", "port": 80 }] }),
                ),
                service("chosen", json!({ "ports": ports, "selector": { "app": "web" } })),
            ],
        ),
        (
            ENDPOINT_SLICE,
            vec![slice(
                "web",
                json!([
                    { "addresses": ["127.0.0.1"], "conditions": { "ready": true } },
                    { "addresses": ["127.0.0.2"], "conditions": { "ready": false } },
                    { "addresses": ["127.0.0.3"] },
                ]),
            )],
        ),
        (
            CONTAINER_NETWORK,
            vec![network(json!({ "state": "Running", "id": "n1", "networkName": "blue-1" }))],
        ),
        (REFERENCE_GRANT, Vec::new()),
    ]
}

fn tunnel(change: Value) -> Value {
    let mut tunnel = json!({ "name": "web", "serverServiceName": "web", "clientServiceName": "web-in" });
    tunnel.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    tunnel
}

fn proxy(network: &str, tunnels: &[Value]) -> ContainerNetworkTunnelProxy {
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetworkTunnelProxy",
        "metadata": { "name": "lab", "namespace": "dev" },
        "spec": { "containerNetworkName": network, "tunnels": tunnels },
    }))
    .unwrap()
}

/// Through the steps of a reconcile, with grants required and none given.
fn desired_of(proxy: &ContainerNetworkTunnelProxy, world: &[(ChildKind, Vec<DynamicObject>)]) -> Desired {
    let observed = observe(proxy, &Children::fixed(world), true);
    desired(proxy, &validate(proxy, &observed), &observed)
}

fn tunnel_of(change: Value) -> DesiredTunnel {
    let desired = desired_of(&proxy("blue", &[tunnel(change)]), &world());
    desired.tunnels.into_iter().next().unwrap()
}

fn problem_of(change: Value) -> Problem {
    tunnel_of(change).problem.expect("something is missing")
}

#[test]
fn a_tunnel_leads_to_the_ready_endpoints() {
    let wanted = tunnel_of(json!({ "allowedSources": ["10.0.0.0/8", "fd00::1"] }));
    assert_eq!(wanted.problem, None);
    let endpoints: Vec<_> = wanted.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(endpoints, ["127.0.0.1:8080", "127.0.0.3:8080"], "unsaid is ready");
    assert_eq!(wanted.usual_port, Some(80));
    assert_eq!(wanted.client_port_name.as_deref(), Some("in"), "the first port of the same protocol");
    let sources: Vec<_> = wanted.allowed_sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["10.0.0.0/8", "fd00::1/128"]);
}

#[test]
fn what_is_missing_is_named_and_what_a_person_must_fix_is_told_apart() {
    for (change, reason, is_permanent, words) in [
        (json!({ "serverServiceName": "gone" }), Reason::NotFound, false, "Service dev/gone does not exist"),
        (json!({ "clientServiceName": "gone" }), Reason::NotFound, false, "Service dev/gone does not exist"),
        (json!({ "clientServiceName": "chosen" }), Reason::Conflict, true, "dev/chosen has a selector"),
        (json!({ "serverServiceName": "chosen" }), Reason::NoReadyEndpoints, false, "has no ready endpoint"),
        (json!({ "protocol": "UDP" }), Reason::InvalidSpec, true, "Service dev/web has no UDP port"),
        (json!({ "allowedSources": ["rubbish"] }), Reason::InvalidSpec, true, "\"rubbish\" is neither"),
        (
            json!({ "serverServiceNamespace": "dev", "clientServiceName": "web" }),
            Reason::InvalidSpec,
            true,
            "both ends of the tunnel",
        ),
        (
            json!({ "serverServiceNamespace": "ops" }),
            Reason::RefNotPermitted,
            true,
            "create a ReferenceGrant in ops",
        ),
        (
            json!({ "clientServiceNamespace": "ops" }),
            Reason::RefNotPermitted,
            true,
            "create a ReferenceGrant in ops",
        ),
    ] {
        let problem = problem_of(change.clone());
        assert_eq!((problem.reason, problem.is_permanent), (reason, is_permanent), "{change}");
        assert!(problem.message.contains(words), "{change}: {}", problem.message);
        assert_eq!(tunnel_of(change).endpoints, [], "nothing passes");
    }
}

#[test]
fn the_network_has_to_run() {
    let find = |path: &str, status: Value| {
        let mut world = world();
        world[2].1 = vec![network(status)];
        desired_of(&proxy(path, &[]), &world).network
    };
    let running = json!({ "state": "Running", "id": "n1", "networkName": "blue-1" });
    let found = Network { id: "n1".into(), name: "blue-1".into() };
    assert_eq!(find("blue", running.clone()), Ok(found.clone()));
    assert_eq!(find("dev/blue", running.clone()), Ok(found));
    assert_eq!(find("red", running.clone()).unwrap_err().reason, Reason::NotFound);
    assert_eq!(find("ops/blue", running).unwrap_err().reason, Reason::RefNotPermitted);
    assert_eq!(find("blue", json!({ "state": "NotFound" })).unwrap_err().reason, Reason::NotFound);
    let doubt = find("blue", json!({ "state": "Pending", "message": "no runtime" })).unwrap_err();
    assert_eq!(doubt.reason, Reason::NetworkNotReady);
    assert_eq!(doubt.message, "ContainerNetwork dev/blue is Pending: no runtime");
}
