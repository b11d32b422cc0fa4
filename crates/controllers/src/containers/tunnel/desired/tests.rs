//! What is looked up, and what is said of what is missing.

use std::sync::Arc;

use causeway_base::well_known::SERVICE_NAME_LABEL;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::containers::tunnel::services::Named;
use crate::containers::tunnel::{observe::observe, validate::validate};
use crate::framework::children::Children;
use crate::framework::kinds::CONTAINER_NETWORK;
use crate::grants::Grants;

fn service(name: &str, spec: Value) -> Arc<Service> {
    let value = json!({ "metadata": { "name": name, "namespace": "dev" }, "spec": spec });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn slice(service: &str, endpoints: Value) -> Arc<EndpointSlice> {
    let value = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{service}-1"), "namespace": "dev", "labels": { SERVICE_NAME_LABEL: service } },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn network(status: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetwork",
        "metadata": { "name": "blue", "namespace": "dev" }, "spec": {}, "status": status,
    }))
    .unwrap()
}

fn named() -> Named {
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    let others = json!([{ "name": "other", "port": 1, "protocol": "UDP" }, { "name": "in", "port": 80 }]);
    Named {
        services: vec![
            service("web", json!({ "ports": ports })),
            service("web-in", json!({ "ports": others })),
            service("chosen", json!({ "ports": ports, "selector": { "app": "web" } })),
        ],
        slices: vec![slice(
            "web",
            json!([
                { "addresses": ["127.0.0.1"], "conditions": { "ready": true } },
                { "addresses": ["127.0.0.2"], "conditions": { "ready": false } },
                { "addresses": ["127.0.0.3"] },
            ]),
        )],
    }
}

fn running() -> Value {
    json!({ "state": "Running", "id": "n1", "networkName": "blue-1" })
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
fn desired_of(proxy: &ContainerNetworkTunnelProxy, network_status: Value) -> Desired {
    granted(proxy, network_status, Grants::default())
}

fn granted(proxy: &ContainerNetworkTunnelProxy, network_status: Value, grants: Grants) -> Desired {
    let children = Children::fixed(&[(CONTAINER_NETWORK, vec![network(network_status)])]);
    let observed = observe(proxy, &named(), Some(grants), &children);
    desired(proxy, &validate(proxy, &observed), &observed)
}

fn tunnel_of(change: Value) -> DesiredTunnel {
    let desired = desired_of(&proxy("blue", &[tunnel(change)]), running());
    desired.tunnels.into_iter().next().unwrap()
}

fn problem_of(change: Value) -> Problem {
    tunnel_of(change).problem.expect("something is missing")
}

#[test]
fn a_tunnel_leads_to_the_ready_endpoints() {
    let wanted = tunnel_of(json!({ "allowedSources": ["10.0.0.0/8", "fd00::1"] }));
    assert_eq!(wanted.problem, None);
    let endpoints: Vec<_> = wanted.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
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
            json!({ "allowedSources": ["10.1.2.3/8"] }),
            Reason::InvalidSpec,
            true,
            "write 10.0.0.0/8 for the network, or 10.1.2.3 for that address alone",
        ),
        (json!({ "clientPort": 15049 }), Reason::InvalidSpec, true, "15049 is the tunnel's own"),
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
fn a_port_that_two_tunnels_ask_for_is_the_first_ones() {
    let tunnels = ["one", "two"].map(|name| tunnel(json!({ "name": name, "clientPort": 7000 })));
    let desired = desired_of(&proxy("blue", &tunnels), running());
    assert_eq!(desired.tunnels[0].problem, None);
    let problem = desired.tunnels[1].problem.clone().unwrap();
    assert_eq!(
        problem.message,
        "clientPort: 7000 is that of tunnel one already: choose another, or leave it out"
    );
}

#[test]
fn the_network_has_to_run() {
    let find = |path: &str, status: Value| desired_of(&proxy(path, &[]), status).network;
    let running = running();
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

/// Forwarding to a namespace's Service is one thing, deciding where its clients go another.
#[test]
fn to_write_into_a_service_needs_a_grant_of_its_own() {
    let grant = |group: &str, kind: &str| {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": { "name": "g", "namespace": "ops" },
            "spec": {
                "from": [{ "group": "causeway.dev", "kind": "ContainerNetworkTunnelProxy", "namespace": "dev" }],
                "to": [{ "group": group, "kind": kind }],
            },
        }))
        .unwrap();
        object
    };
    let reasons = |grant: DynamicObject| {
        let grants = [Arc::new(grant)];
        let of = |change: Value| {
            let desired = granted(&proxy("blue", &[tunnel(change)]), running(), Grants::read(&grants));
            desired.tunnels[0].problem.clone().map(|problem| problem.reason)
        };
        let (server, client) = ("serverServiceNamespace", "clientServiceNamespace");
        [of(json!({ server: "ops" })), of(json!({ client: "ops" }))]
    };
    let (refused, absent) = (Some(Reason::RefNotPermitted), Some(Reason::NotFound));
    assert_eq!(reasons(grant("", "Service")), [absent, refused]);
    assert_eq!(reasons(grant("discovery.k8s.io", "EndpointSlice")), [refused, absent]);
}

#[test]
fn a_service_means_the_same_servers_as_to_everybody_else() {
    let service =
        serde_json::from_value(json!({ "spec": { "ports": [{ "port": 80, "targetPort": 8080 }] } })).unwrap();
    let slices = [
        // The number of the port is the Service's, and the second address has no meaning.
        json!({ "addressType": "IPv4", "ports": [{ "protocol": "TCP" }], "endpoints": [
            { "addresses": ["127.0.0.1", "127.0.0.9"], "conditions": { "ready": false, "serving": true, "terminating": true } },
            { "addresses": ["127.0.0.2"], "conditions": { "ready": false } },
        ] }),
        json!({ "addressType": "FQDN", "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": ["127.0.0.3"] }] }),
        json!({ "addressType": "IPv4", "ports": [{ "port": 8080, "protocol": "UDP" }], "endpoints": [{ "addresses": ["127.0.0.4"] }] }),
    ];
    let observed = ObservedTunnel {
        slices: slices.into_iter().map(|slice| serde_json::from_value(slice).unwrap()).collect(),
        server: Some(service),
        client: None,
    };
    let port =
        observed.server.as_ref().and_then(|service| service.spec.as_ref()?.ports.as_ref()?.first().cloned());
    let valid = ValidTunnel { server_port: port, ..ValidTunnel::default() };
    let desired = super::tunnel("dev", &Tunnel::default(), &valid, &observed);
    let found: Vec<_> =
        desired.endpoints.iter().map(|one| (one.address.to_string(), one.ready, one.terminating)).collect();
    assert_eq!(found, [("127.0.0.1:8080".to_owned(), false, true)], "one that goes is better than nobody");
    assert_eq!(desired.problem, None);
}
