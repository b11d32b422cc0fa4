//! A proxy on the pod network only: it has no address of its own, and is reached by its Service.

use causeway_testkit::server::Server;
use serde_json::json;

use crate::manifests;
use crate::tls::{Authority, Client};

#[test]
fn a_proxy_without_an_address_serves_on_the_pod_network() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    let authority = Authority::new();
    kubectl.apply(&manifests::services(&authority)).ok();
    let proxy = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": {"name": "edge"},
        "spec": {"replicas": 2, "backends": [manifests::backend_on(8450, "one", "old")]},
    });
    kubectl.apply(&proxy.to_string()).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "proxyserver/edge", "--timeout=60s"]);
    let attached = ".status.conditions[?(@.type==\"NetworkAttached\")].message";
    assert_eq!(kubectl.value("proxyserver/edge", attached), "the pod network is all that is asked for");
    let pods =
        kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "jsonpath={.items[*].status.podIP}"]);
    let service = kubectl.value("service/edge", ".spec.clusterIP");
    assert_eq!(pods.split_whitespace().count(), 2, "{pods}");
    for address in pods.split_whitespace().chain([service.as_str()]) {
        let client = Client::new(format!("{address}:8450").parse().unwrap(), &authority);
        assert_eq!(client.ask("old.example.test").unwrap(), "one", "{address}");
    }

    let network = json!({"spec": {"networkConfig": {"networkAttachmentName": "vlan"}}}).to_string();
    let refused = kubectl.fails(&["patch", "proxyserver", "edge", "--type=merge", "-p", &network]);
    assert!(
        refused.contains("spec.networkConfig.serverIP") && refused.contains("is needed with"),
        "{refused}"
    );
}
