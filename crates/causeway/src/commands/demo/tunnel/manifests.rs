//! The resources that the demo applies.

use causeway_base::well_known::SERVICE_NAME_LABEL;
use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "demo";
pub(super) const NETWORK: &str = "app";
pub(super) const TUNNEL: &str = "to-host";
pub(super) const ALIAS: &str = "host-services";
/// The Service that stands for the program on the host.
const SERVER: &str = "echo-on-host";
/// The Service that stands for it on the container network.
pub(super) const CLIENT: &str = "echo";
/// The pod that dials the alias.
pub(super) const CHECKER: &str = "checker";
/// The port of its report, inside of its container.
const REPORT: u16 = 8080;

pub(super) fn namespace() -> Value {
    // The checker's report is a port of the host.
    let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
}

/// A Service with an EndpointSlice that leads to this port of the host's loopback.
pub(super) fn server_service(port: u16) -> [Value; 2] {
    [
        service(SERVER, port),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": SERVER, "namespace": NAMESPACE, "labels": {SERVICE_NAME_LABEL: SERVER}},
            "addressType": "IPv4",
            "ports": [{"port": port}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        }),
    ]
}

/// The Service that gets the address on the container network.
pub(super) fn client_service(port: u16) -> Value {
    service(CLIENT, port)
}

fn service(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"ports": [{"port": port}]},
    })
}

pub(super) fn network() -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetwork",
        "metadata": {"name": NETWORK, "namespace": NAMESPACE}, "spec": {"mode": "session"},
    })
}

pub(super) fn tunnel_proxy() -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetworkTunnelProxy",
        "metadata": {"name": TUNNEL, "namespace": NAMESPACE},
        "spec": {
            "containerNetworkName": NETWORK,
            "aliases": [ALIAS],
            "tunnels": [{"name": "echo", "serverServiceName": SERVER, "clientServiceName": CLIENT}],
        },
    })
}

/// A container on the network that dials the alias, checks the echo and reports on this port of the host.
pub(super) fn checker(network: &str, image: &str, target: &str, report: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": CHECKER, "namespace": NAMESPACE, "annotations": {"causeway.dev/networks": network},
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": CHECKER, "image": image, "imagePullPolicy": "Never",
                "args": ["echo", "--check", target, "--report", format!("0.0.0.0:{REPORT}")],
                "ports": [{"containerPort": REPORT, "hostPort": report, "hostIP": "127.0.0.1"}],
            }],
        },
    })
}
