use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::{Request, Response};
use kube::{ResourceExt, client::Body};
use serde_json::{Value, json};

use super::*;
use crate::grants::REFERENCE_GRANT;

/// A cluster with one grant, whose definition goes over from `v1beta1` to `v1` as soon as somebody watches.
fn cluster() -> Client {
    let is_moved = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_moved = is_moved.clone();
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let version = if path.contains("/v1beta1") { "v1beta1" } else { "v1" };
            let is_served = is_moved.load(Relaxed) == (version == "v1");
            let is_watch = query.contains("watch=true");
            if is_watch && is_served && version == "v1" {
                // Nothing more happens.
                future::pending::<()>().await;
            }
            if is_watch && is_served {
                is_moved.store(true, Relaxed);
                return Ok::<_, Infallible>(Response::new(Body::empty()));
            }
            let answer = if is_served { answer(path, version) } else { not_found() };
            let code = if is_served { 200 } else { 404 };
            Ok(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

fn answer(path: &str, version: &str) -> Value {
    let api_version = format!("gateway.networking.k8s.io/{version}");
    if !path.ends_with("/referencegrants") {
        let kind = json!({
            "name": "referencegrants", "singularName": "", "namespaced": true, "kind": "ReferenceGrant", "verbs": [],
        });
        return json!({ "kind": "APIResourceList", "groupVersion": api_version, "resources": [kind] });
    }
    json!({
        "apiVersion": api_version, "kind": "ReferenceGrantList", "metadata": { "resourceVersion": "7" },
        "items": [{ "metadata": { "name": "proxies", "namespace": "apps", "resourceVersion": "7" } }],
    })
}

fn not_found() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404 })
}

#[tokio::test(start_paused = true)]
async fn objects_stay_while_their_definition_goes_over_to_another_version() {
    let served = Served::default();
    let events =
        follow(cluster(), String::new(), REFERENCE_GRANT, watcher::Config::default(), served.clone());
    let mut events = std::pin::pin!(events);
    let mut versions = Vec::new();
    let mut listed = Vec::new();
    while versions.len() < 2 {
        match events.next().await.unwrap() {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(grant)) => listed.push(grant.name_any()),
            Ok(watcher::Event::InitDone) => {
                assert_eq!(listed, ["proxies"], "after {versions:?}");
                versions.push(served.get().unwrap().version);
            }
            other => panic!("{other:?} after {versions:?}"),
        }
    }
    assert_eq!(versions, ["v1beta1", "v1"]);
}
