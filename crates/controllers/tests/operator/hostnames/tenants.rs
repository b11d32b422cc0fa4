//! What one team can't do to another.

use causeway_api::{HostnameGrant, conditions::ConditionType, names};
use causeway_testkit::eventually;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::scene::{EDGE, Scene};

async fn route(
    scene: &Scene,
    namespace: &str,
    name: &str,
    hostnames: &[&str],
    parent: Value,
) -> kube::Result<DynamicObject> {
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
        "spec": {"parentRefs": [parent], "hostnames": hostnames},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    scene.gateway_api("HTTPRoute", namespace).create(&PostParams::default(), &object).await
}

/// Whether a route is accepted by its parent, once somebody has said so.
async fn accepted(scene: &Scene, namespace: &str, name: &str) -> bool {
    eventually(&format!("HTTPRoute {namespace}/{name} is judged"), || async {
        let route = scene.gateway_api("HTTPRoute", namespace).get(name).await.unwrap();
        let conditions = route.data["status"]["parents"][0]["conditions"].as_array()?.clone();
        let found = conditions.into_iter().find(|one| one["type"] == "Accepted")?;
        Some(found["status"] == "True")
    })
    .await
}

#[tokio::test]
async fn nobody_routes_claims_or_shadows_the_name_of_another() {
    let scene = Scene::new().await;
    let operator = scene.operator();
    for namespace in ["a", "b"] {
        scene.namespace(namespace).await;
    }
    scene.ask("a", "shop", "shop.example.test").await;
    scene.ask("a", "international", "münchen.example.test").await;
    scene.ready("a", "shop").await;
    scene.ready("a", "international").await;
    let edge = json!({"name": "gw-01", "namespace": EDGE});
    route(&scene, "a", "own", &["shop.example.test"], edge.clone()).await.unwrap();
    assert!(accepted(&scene, "a", "own").await);

    // By claiming: in any spelling, as a wildcard above, in another zone.
    for (name, hostname, reason) in [
        ("exact", "shop.example.test", "AlreadyClaimed"),
        ("case", "SHOP.Example.test", "AlreadyClaimed"),
        ("dot", "shop.example.test.", "AlreadyClaimed"),
        ("a-label", "xn--mnchen-3ya.example.test", "AlreadyClaimed"),
        ("u-label", "MÜNCHEN.example.test", "AlreadyClaimed"),
        ("wildcard", "*.example.test", "Shadowed"),
    ] {
        scene.ask("b", name, hostname).await;
        scene.says(("b", name), (ConditionType::Claimed, "False", reason)).await;
    }
    scene.ask_for("b", "zone", json!({"zoneId": "test", "hostname": "shop.example.test"})).await;
    scene.says(("b", "zone"), (ConditionType::Claimed, "False", "Shadowed")).await;

    // By a route: to the shared gateway, without hostnames, and to a gateway of their own.
    scene
        .gateway_api("Gateway", "b")
        .create(
            &PostParams::default(),
            &serde_json::from_value(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "own"},
                "spec": {"gatewayClassName": "causeway", "listeners": [
                    {"name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}},
                ]},
            }))
            .unwrap(),
        )
        .await
        .unwrap();
    for (name, hostnames, parent) in [
        ("edge", vec!["shop.example.test"], edge.clone()),
        ("any", vec![], edge.clone()),
        ("own", vec!["shop.example.test"], json!({"name": "own"})),
        ("wild", vec!["*.example.test"], json!({"name": "own"})),
        ("above", vec!["*.test"], json!({"name": "own"})),
    ] {
        // Refused at the door, or left out by the gateway.
        if route(&scene, "b", name, &hostnames, parent).await.is_ok() {
            assert!(!accepted(&scene, "b", name).await, "{name}");
        }
    }
    assert!(accepted(&scene, "a", "own").await);

    // By writing a grant: it is taken back, and says nothing meanwhile.
    let grant: HostnameGrant = serde_json::from_value(json!({
        "apiVersion": names::API_VERSION, "kind": "HostnameGrant", "metadata": {"name": "mine"},
        "spec": {"hostnames": ["shop.example.test"], "except": [], "zones": ["example.test"]},
    }))
    .unwrap();
    let grants = Api::<HostnameGrant>::namespaced(scene.client(), "b");
    grants.create(&PostParams::default(), &grant).await.unwrap();
    eventually("it is taken back", || async { grants.get_opt("mine").await.unwrap().is_none() }).await;
    assert_eq!(scene.grant("b").await.unwrap().spec.hostnames, [""; 0]);
    operator.stop().await;
}
