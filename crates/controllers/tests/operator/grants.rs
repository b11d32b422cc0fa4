//! Grants in the version that a cluster serves, as OpenShift has them, and on a cluster that has none at all.

use causeway_api::ProxyServer;
use causeway_testkit::eventually;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const DEFINITION: &str = "referencegrants.gateway.networking.k8s.io";

#[tokio::test(flavor = "multi_thread")]
async fn grants_of_an_older_version_count_and_none_at_all_is_said() {
    let cluster = Cluster::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut old = definitions.get(DEFINITION).await.unwrap();
    definitions.delete(DEFINITION, &DeleteParams::default()).await.unwrap();
    eventually("the definition is gone", || async {
        definitions.get_opt(DEFINITION).await.unwrap().is_none()
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let apps = serde_json::from_value(json!({ "metadata": { "name": "apps" } })).unwrap();
    namespaces.create(&PostParams::default(), &apps).await.unwrap();
    let operator = cluster.whole();
    let proxy = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": { "name": "edge" },
        "spec": {
            "networkConfig": { "serverIP": "127.0.0.9" },
            "backends": [{
                "name": "web", "hostname": "web.test", "port": 443,
                "targetService": "web", "targetPort": 443, "targetNamespace": "apps",
            }],
        },
    }))
    .unwrap();
    cluster.api::<ProxyServer>().create(&PostParams::default(), &proxy).await.unwrap();
    said(&cluster, "this cluster has no ReferenceGrants").await;

    old.metadata = serde_json::from_value(json!({
        "name": DEFINITION,
        "annotations": { "api-approved.kubernetes.io": "https://example.test" },
    }))
    .unwrap();
    old.status = None;
    old.spec.versions.retain(|version| version.name == "v1beta1");
    old.spec.versions[0].storage = true;
    definitions.create(&PostParams::default(), &old).await.unwrap();
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant");
    let resource = ApiResource::from_gvk_with_plural(&kind, "referencegrants");
    let grants: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "apps", &resource);
    let grant: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": { "name": "proxies" },
        "spec": {
            "from": [{ "group": "causeway.dev", "kind": "ProxyServer", "namespace": "default" }],
            "to": [{ "group": "", "kind": "Service" }],
        },
    }))
    .unwrap();
    eventually("the definition is served", || async {
        grants.create(&PostParams::default(), &grant).await.is_ok()
    })
    .await;
    let roles: Api<Role> = Api::namespaced(cluster.client.clone(), "apps");
    eventually("the proxy may read what was granted", || async {
        roles.get_opt("default.edge-proxy").await.unwrap().is_some()
    })
    .await;
    operator.stop().await;
}

/// Waits until the proxy's BackendsResolved says this.
async fn said(cluster: &Cluster, text: &str) {
    eventually(&format!("BackendsResolved says {text}"), || async {
        let proxy = cluster.api::<ProxyServer>().get("edge").await.unwrap();
        let status: Value = serde_json::to_value(&proxy.status).unwrap();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let resolved = conditions.into_iter().find(|found| found["type"] == "BackendsResolved");
        resolved.is_some_and(|found| found["message"].as_str().is_some_and(|message| message.contains(text)))
    })
    .await;
}
