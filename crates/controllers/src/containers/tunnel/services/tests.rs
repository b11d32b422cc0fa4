//! What is watched and what is kept, against an API server.

use causeway_testkit::{Cluster, eventually};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::*;

async fn create(cluster: &Cluster, name: &str) {
    let service = json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } });
    let slice = json!({
        "metadata": { "name": format!("{name}-1"), "labels": { SERVICE_NAME_LABEL: name } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"] }],
    });
    let params = PostParams::default();
    cluster.api::<Service>().create(&params, &serde_json::from_value(service).unwrap()).await.unwrap();
    cluster.api::<EndpointSlice>().create(&params, &serde_json::from_value(slice).unwrap()).await.unwrap();
}

fn proxy(servers: &[&str]) -> ContainerNetworkTunnelProxy {
    let tunnels: Vec<_> = servers
        .iter()
        .map(|name| json!({ "name": name, "serverServiceName": name, "clientServiceName": format!("{name}-in") }))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetworkTunnelProxy",
        "metadata": { "name": "lab", "namespace": "default", "uid": "u1" },
        "spec": { "containerNetworkName": "blue", "tunnels": tunnels },
    }))
    .unwrap()
}

fn kept(services: &NamedServices) -> Vec<String> {
    let namespaces = lock(&services.namespaces);
    let mut names: Vec<_> = namespaces
        .values()
        .flat_map(|namespace| {
            let slices = namespace.watch.slices.state().into_iter().map(|slice| slice.name_any());
            namespace.watch.services.state().into_iter().map(|service| service.name_any()).chain(slices)
        })
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn of_a_namespace_only_what_is_named_is_kept_and_nothing_of_others() {
    let cluster = Cluster::start().await;
    for name in ["web", "late", "other"] {
        create(&cluster, name).await;
    }
    let services = NamedServices::new(cluster.client.clone(), Arc::default());
    let named = services.follow(&proxy(&["web"]), None).await.unwrap();
    assert!(named.service("default", "web").is_some() && named.service("default", "web-in").is_none());
    assert_eq!(named.slices_of("default", "web").count(), 1);
    assert_eq!(kept(&services), ["web", "web-1"]);

    let named = services.follow(&proxy(&["web", "late"]), None).await.unwrap();
    assert_eq!((named.services.len(), named.slices.len()), (2, 2), "what is named later is found at once");
    assert_eq!(kept(&services), ["late", "late-1", "web", "web-1"]);

    cluster.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    eventually("what goes is forgotten", async || kept(&services) == ["late", "late-1", "web-1"]).await;
    services.forget(&proxy(&[]));
    assert!(lock(&services.namespaces).is_empty(), "nobody names anything there");
}

#[tokio::test]
async fn what_a_namespace_does_not_grant_is_not_even_watched() {
    let cluster = Cluster::start().await;
    let mut elsewhere = proxy(&["web"]);
    elsewhere.spec.tunnels[0].server_service_namespace = Some("kube-system".into());
    let services = NamedServices::new(cluster.client.clone(), Arc::default());
    services.follow(&elsewhere, Some(&Grants::default())).await.unwrap();
    assert_eq!(lock(&services.namespaces).keys().collect::<Vec<_>>(), ["default"]);
}

/// One grant is to be a client of a Service, the other to decide where its clients go.
#[test]
fn each_end_of_a_tunnel_is_followed_by_its_own_grant() {
    let mut elsewhere = proxy(&["web"]);
    elsewhere.spec.tunnels[0].server_service_namespace = Some("ops".into());
    elsewhere.spec.tunnels[0].client_service_namespace = Some("ops".into());
    let granted = |group: &str, kind: &str| {
        let grant = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": { "name": "g", "namespace": "ops" },
            "spec": {
                "from": [{ "group": "causeway.dev", "kind": "ContainerNetworkTunnelProxy", "namespace": "default" }],
                "to": [{ "group": group, "kind": kind }],
            },
        });
        let grants = Grants::read(&[Arc::new(serde_json::from_value(grant).unwrap())]);
        names_of(&elsewhere, Some(&grants)).remove("ops").unwrap_or_default().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(granted("", "Service"), ["web"]);
    assert_eq!(granted("discovery.k8s.io", "EndpointSlice"), ["web-in"]);
}
