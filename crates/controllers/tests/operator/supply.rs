//! What a ProxyServer is kept with and supplied with, where others write at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use causeway_api::{ProxyServer, conditions, names};
use causeway_testkit::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn spec(fields: &Value) -> Value {
    let mut spec = json!({
        "networkConfig": { "serverIP": "127.0.0.9" },
        "backends": [{
            "name": "web", "hostname": "web.test", "port": 443,
            "targetService": "web", "targetPort": 443, "targetNamespace": "default",
        }],
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

async fn create_proxy(cluster: &Cluster) -> ProxyServer {
    let proxy = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer", "metadata": { "name": "edge" },
        "spec": spec(&json!({})),
    });
    let proxy = serde_json::from_value(proxy).unwrap();
    cluster.api::<ProxyServer>().create(&PostParams::default(), &proxy).await.unwrap()
}

/// Who may write ConfigMaps gets no other program by it than a ProxyServer may name.
#[tokio::test]
async fn a_spec_that_was_kept_is_checked_as_any_other() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    let proxy = create_proxy(&cluster).await;
    let image = || async {
        let found = cluster.api::<Deployment>().get_opt("edge").await.unwrap()?;
        found.spec?.template.spec?.containers.pop()?.image
    };
    let before = eventually("the Deployment is there", image).await;
    let forged = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer",
        "metadata": { "name": "edge", "namespace": "default", "uid": proxy.uid(), "generation": 1 },
        "spec": spec(&json!({ "managerImage": "evil.test/shell:1" })),
    });
    let map = json!({
        "metadata": {
            "name": names::accepted_config_map("edge"),
            "labels": { names::LABEL_MANAGED_BY: names::MANAGED_BY },
        },
        "data": { names::ACCEPTED_FILE: forged.to_string() },
    });
    let map = serde_json::from_value(map).unwrap();
    cluster.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    let refused = json!({ "spec": { "ports": [{ "port": 9901 }] } });
    cluster.merge::<ProxyServer>("edge", &refused).await;
    eventually("the spec is refused", || async {
        let status = cluster.api::<ProxyServer>().get("edge").await.unwrap().status?;
        let ready = conditions::find(&status.conditions, conditions::ConditionType::Ready)?;
        (ready.reason == "InvalidSpec").then_some(())
    })
    .await;
    assert_eq!(image().await, Some(before));
    operator.stop().await;
}

#[tokio::test]
async fn a_proxy_that_goes_leaves_no_word_in_a_route_that_others_write_to() {
    let cluster = Cluster::start().await;
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "TLSRoute");
    let resource = ApiResource::from_gvk_with_plural(&kind, "tlsroutes");
    let routes: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "default", &resource);
    let is_raced = Arc::new(AtomicBool::new(false));
    let (raced, others) = (is_raced.clone(), routes.clone());
    let client = cluster.operator_through(move |request| {
        let others = others.clone();
        let is_now = request.method() == http::Method::PATCH
            && request.uri().path().ends_with("/tlsroutes/web/status")
            && raced.swap(false, Relaxed);
        async move {
            if is_now {
                let note = json!({ "metadata": { "annotations": { "note": "written by another" } } });
                others.patch("web", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
            }
        }
    });
    let operator = Cluster::run_whole(client);
    create_proxy(&cluster).await;
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "TLSRoute", "metadata": { "name": "web" },
        "spec": {
            "hostnames": ["of-a-route.test"],
            "parentRefs": [{ "group": "causeway.dev", "kind": "ProxyServer", "name": "edge" }],
            "rules": [{ "backendRefs": [{ "name": "web", "port": 443 }] }],
        },
    });
    routes.create(&PostParams::default(), &serde_json::from_value(route).unwrap()).await.unwrap();
    let said = || async {
        let route = routes.get("web").await.unwrap();
        route.data.pointer("/status/parents").and_then(Value::as_array).map_or(0, Vec::len)
    };
    eventually("the route is told", || async { said().await == 1 }).await;
    is_raced.store(true, Relaxed);
    cluster.api::<ProxyServer>().delete("edge", &DeleteParams::default()).await.unwrap();
    eventually("the proxy is gone", || async { !cluster.exists::<ProxyServer>("edge").await }).await;
    assert!(!is_raced.load(Relaxed), "somebody else wrote");
    assert_eq!(said().await, 0);
    operator.stop().await;
}
