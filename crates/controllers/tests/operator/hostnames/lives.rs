//! A request from its first day to its last.

use std::time::Duration;

use causeway_api::{DnsProviderKind, DomainClaim, conditions::ConditionType};
use causeway_testkit::eventually;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::scene::{EDGE, Scene};

#[tokio::test]
async fn a_request_becomes_a_certificate_a_listener_and_a_record_and_leaves_nothing() {
    let scene = Scene::new().await;
    let operator = scene.operator();
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "Shop.example.test.").await;
    let request = scene.ready("shop", "shop").await;
    let status = request.status.unwrap();
    for kind in [
        ConditionType::Claimed,
        ConditionType::CertificateRequested,
        ConditionType::DnsValidated,
        ConditionType::CertificateIssued,
        ConditionType::ListenerAttached,
        ConditionType::DnsAliasReady,
    ] {
        assert!(
            status.conditions.iter().any(|one| one.type_ == kind.as_str() && one.status == "True"),
            "{kind}"
        );
    }
    assert_eq!(status.hostnames, ["shop.example.test"]);
    assert_eq!(status.assigned_gateway.as_deref(), Some("gw-01"));
    let certificate = status.certificate.unwrap();
    assert!(certificate.issuer.unwrap().contains("local authority") && certificate.not_after.is_some());
    assert_eq!(status.records[0].name, "shop.example.test");
    assert!(scene.supply.zones.found("shop.example.test").is_some_and(|found| !found.records.is_empty()));
    assert_eq!(scene.grant("shop").await.unwrap().spec.hostnames, ["shop.example.test"]);
    assert_eq!(scene.grant("default").await.unwrap().spec.hostnames, [""; 0]);
    let listener = &scene.gateways().await[0].data["spec"]["listeners"][1];
    assert_eq!(listener["hostname"], "shop.example.test");
    let events = Api::<k8s_openapi::api::events::v1::Event>::namespaced(scene.client(), "shop");
    for reason in ["Claimed", "CertificateIssued", "GatewayAssigned", "Ready"] {
        eventually(&format!("Event {reason}"), || async {
            let events = events.list(&ListParams::default()).await.unwrap().items;
            let reasons: Vec<String> = events.into_iter().filter_map(|event| event.reason).collect();
            assert!(!reasons.iter().any(|one| one == "AttachmentFailed"), "{reasons:?}");
            reasons.iter().any(|one| one == reason)
        })
        .await;
    }

    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    operator.stop().await;
}

#[tokio::test]
async fn a_claim_says_who_has_its_records_also_one_that_was_made_before_that_was_said() {
    let scene = Scene::new().await;
    let operator = scene.operator();
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "shop.example.test").await;
    scene.ready("shop", "shop").await;
    let claims = Api::<DomainClaim>::all(scene.client());
    let claim = claims.list(&ListParams::default()).await.unwrap().items.remove(0);
    let origin = |claim: &DomainClaim| Some((claim.spec.dns.clone()?.provider, claim.spec.domain.clone()?));
    let said = Some((DnsProviderKind::Local, "example.test".to_owned()));
    assert_eq!(origin(&claim), said);
    let older = Patch::Merge(json!({"spec": {"dns": null, "domain": null}}));
    let patched = claims.patch(&claim.name_any(), &PatchParams::default(), &older).await.unwrap();
    assert_eq!(origin(&patched), None);
    eventually("it is said anew", || async { origin(&claims.get(&claim.name_any()).await.unwrap()) == said })
        .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_changed_name_serves_before_the_old_one_goes() {
    let scene = Scene::new().await;
    let operator = scene.operator();
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "old.example.test").await;
    scene.ready("shop", "shop").await;
    scene
        .change(
            "shop",
            "shop",
            json!({"hostname": "new.example.test", "additionalHostnames": ["*.new.example.test"]}),
        )
        .await;
    let zones = scene.supply.zones.clone();
    eventually("the old name goes, and only after the new one has come", || async {
        let names = zones.names();
        assert!(names.contains("old.example.test") || names.contains("new.example.test"), "{names:?}");
        !names.contains("old.example.test")
    })
    .await;
    scene.ready("shop", "shop").await;
    eventually("nothing is left of the old one", || async {
        scene.claims().await.len() == 2 && scene.orders().await.len() == 1
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn who_waits_for_a_name_gets_it_when_it_is_free() {
    let scene = Scene::new().await;
    let operator = scene.operator();
    scene.namespace("a").await;
    scene.namespace("b").await;
    scene.ask("a", "first", "shop.example.test").await;
    scene.ready("a", "first").await;
    scene.ask("b", "second", "SHOP.example.test").await;
    let waiting = scene.says(("b", "second"), (ConditionType::Claimed, "False", "AlreadyClaimed")).await;
    let holder = waiting.status.unwrap().waiting_for.unwrap();
    assert_eq!((holder.namespace.as_str(), holder.name.as_str()), ("a", "first"));
    assert!(holder.since.is_some());
    scene.delete("a", "first").await;
    scene.gone("a", "first").await;
    scene.ready("b", "second").await;
    assert_eq!(scene.claims().await["shop.example.test"], "b");
    operator.stop().await;
}

#[tokio::test]
async fn what_somebody_breaks_is_put_right_and_told() {
    let scene = Scene::new().await;
    let operator = scene.operator_with(scene.supply.clone(), |config| {
        config.hostnames.sweep = Duration::from_millis(200);
    });
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "shop.example.test").await;
    scene.ready("shop", "shop").await;
    scene.supply.zones.remove("shop.example.test");
    eventually("the record is back", || async { scene.supply.zones.found("shop.example.test").is_some() })
        .await;
    let events = Api::<k8s_openapi::api::events::v1::Event>::namespaced(scene.client(), "shop");
    eventually("it is told", || async {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.iter().any(|event| event.reason.as_deref() == Some("DriftDetected"))
    })
    .await;
    // The gateway, and the certificate.
    scene.gateway_api("Gateway", EDGE).delete("gw-01", &DeleteParams::default()).await.unwrap();
    let order = scene.orders().await.remove(0);
    Api::<k8s_openapi::api::core::v1::Secret>::namespaced(scene.client(), EDGE)
        .delete(&order.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    eventually("both are back", || async {
        let orders = scene.orders().await;
        let gateways = scene.gateways().await;
        orders.iter().any(|there| there.metadata.uid != order.metadata.uid) && gateways.len() == 1
    })
    .await;
    scene.ready("shop", "shop").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_short_lived_certificate_is_renewed() {
    let mut scene = Scene::new().await;
    scene.supply.lifetime = Duration::from_secs(12);
    let operator = scene.operator_with(scene.supply.clone(), |config| {
        config.hostnames.sweep = Duration::from_millis(500);
    });
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "shop.example.test").await;
    let first = scene.ready("shop", "shop").await.status.unwrap().certificate.unwrap().serial;
    eventually("another one is served", || async {
        let status = scene.requests("shop").get("shop").await.unwrap().status.unwrap();
        assert!(
            status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
            "{status:?}"
        );
        status.certificate.unwrap().serial != first
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn what_can_not_be_is_said_with_the_remedy() {
    let scene = Scene::new().await;
    let operator = scene.operator_with(scene.supply.clone(), |config| {
        config.hostnames.world.domains = vec!["example.test".into()];
    });
    scene.namespace("shop").await;
    for (name, spec, kind, reason, words) in [
        (
            "outside",
            json!({"zoneId": "x", "hostname": "shop.example.org"}),
            ConditionType::Claimed,
            "NotGranted",
            "example.test",
        ),
        (
            "class",
            json!({"zoneId": "example.test", "hostname": "class.example.test", "gatewayClass": "nobodys"}),
            ConditionType::ListenerAttached,
            "NotFound",
            "spec.gatewayClass",
        ),
        (
            "bad",
            json!({"zoneId": "x", "hostname": "a_b.example.test"}),
            ConditionType::Claimed,
            "InvalidSpec",
            "spec.hostname",
        ),
    ] {
        scene.ask_for("shop", name, spec).await;
        let request = scene.says(("shop", name), (kind, "False", reason)).await;
        let conditions = request.status.unwrap().conditions;
        let message = conditions.into_iter().find(|one| one.type_ == kind.as_str()).unwrap().message;
        assert!(message.contains(words), "{name}: {message}");
        scene.delete("shop", name).await;
        scene.gone("shop", name).await;
    }
    scene.is_bare().await;
    operator.stop().await;
}
