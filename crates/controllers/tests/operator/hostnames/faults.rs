//! What goes wrong is said, with its cause, and put right as soon as it can be.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use causeway_api::{DomainClaim, conditions::ConditionType, names};
use causeway_controllers::hostnames::SuppliersRef;
use causeway_providers::Error;
use causeway_testkit::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::scene::{EDGE, Scene};
use crate::cluster::{Cluster, Running};

fn quick(scene: &Scene) -> Running {
    scene.operator_with(scene.supply.clone(), |config| config.hostnames.sweep = Duration::from_millis(300))
}

/// What a condition of `shop/shop` says.
async fn message(scene: &Scene, kind: ConditionType, reason: &str) -> String {
    let request = scene.says(("shop", "shop"), (kind, "False", reason)).await;
    let conditions = request.status.unwrap().conditions;
    conditions.into_iter().find(|one| one.type_ == kind.as_str()).unwrap().message
}

#[tokio::test]
async fn limits_and_missing_rights_are_said_where_they_stop_something() {
    let scene = Scene::new().await;
    let operator = quick(&scene);
    scene.namespace("shop").await;
    let refuse = |error: Error| *scene.supply.issuer_refuses.lock().unwrap() = Some(error);
    refuse(Error::RateLimited {
        at: "https://acme.test".into(),
        retry_after: Duration::from_secs(1),
        said: "too many certificates already issued for example.test".into(),
    });
    scene.ask("shop", "shop", "shop.example.test").await;
    let said = message(&scene, ConditionType::CertificateRequested, "RateLimited").await;
    assert!(said.contains("too many certificates already issued") && said.contains("trying again"), "{said}");
    refuse(Error::Denied { missing: "acm:RequestCertificate".into(), said: "AccessDenied".into() });
    let said = message(&scene, ConditionType::CertificateRequested, "MissingPrivileges").await;
    assert!(said.contains("acm:RequestCertificate is missing"), "{said}");
    // A request that is deleted now leaves nothing, and nobody goes on looking after it.
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    *scene.supply.issuer_refuses.lock().unwrap() = None;
    *scene.supply.dns_refuses.lock().unwrap() = Some(Error::Denied {
        missing: "route53:ChangeResourceRecordSets on hostedzone/Z1".into(),
        said: "AccessDenied".into(),
    });
    scene.ask("shop", "shop", "shop.example.test").await;
    let said = message(&scene, ConditionType::DnsAliasReady, "MissingPrivileges").await;
    assert!(said.contains("route53:ChangeResourceRecordSets"), "{said}");
    *scene.supply.dns_refuses.lock().unwrap() = None;
    scene.ready("shop", "shop").await;
    operator.stop().await;
}

#[tokio::test]
async fn nobody_is_busy_for_a_request_that_is_gone() {
    let scene = Scene::new().await;
    let operator = quick(&scene);
    scene.namespace("shop").await;
    // It asks for an issuer that can't be had: nothing is begun for it.
    scene.supply.issuers_missing.store(true, Ordering::SeqCst);
    scene.ask("shop", "shop", "shop.example.test").await;
    message(&scene, ConditionType::CertificateRequested, "ProviderFailed").await;
    scene.delete("shop", "shop").await;
    scene.gone("shop", "shop").await;
    scene.is_bare().await;
    // Longer than the first retry would have taken.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = operator.looks("hostnames");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let looks = operator.looks("hostnames") - before;
    assert!(looks < 10, "{looks} looks in three quiet seconds");
    operator.stop().await;
}

#[tokio::test]
async fn a_certificate_that_is_edited_is_put_right_and_a_lost_key_replaced() {
    let scene = Scene::new().await;
    let operator =
        scene.operator_with(scene.supply.clone(), |config| config.hostnames.sweep = Duration::from_mins(10));
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "shop.example.test").await;
    scene.ready("shop", "shop").await;
    let order = scene.orders().await.remove(0).name_any();
    let secrets = Api::<Secret>::namespaced(scene.client(), EDGE);
    let patch = json!({"stringData": {"tls.crt": "garbage"}});
    secrets.patch(&order, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    eventually("the certificate is back", || async {
        let data = secrets.get(&order).await.unwrap().data.unwrap();
        data["tls.crt"].0.starts_with(b"-----BEGIN CERTIFICATE-----")
    })
    .await;
    let patch = json!({"stringData": {"tls.key": "garbage"}});
    secrets.patch(&order, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    eventually("another order has taken its place", || async {
        let names: Vec<String> = scene.orders().await.iter().map(kube::ResourceExt::name_any).collect();
        names.len() == 1 && names[0] != order
    })
    .await;
    scene.ready("shop", "shop").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_quota_is_kept_and_a_zone_is_known_by_its_claims() {
    let scene = Scene::new().await;
    let operator = quick(&scene);
    scene.namespace("shop").await;
    scene.zone("lab", json!({"zoneId": "example.test", "domain": "example.test", "quota": 1})).await;
    scene.ask("shop", "first", "one.example.test").await;
    scene.ready("shop", "first").await;
    scene.ask("shop", "shop", "two.example.test").await;
    let said = message(&scene, ConditionType::Claimed, "QuotaReached").await;
    assert!(said.contains("1 of 1"), "{said}");
    let claim =
        Api::<DomainClaim>::all(scene.client()).list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(claim.spec.hostname_zone.as_deref(), Some("lab"));
    eventually("it is said since when", || async {
        let claim = Api::<DomainClaim>::all(scene.client()).get(&claim.name_any()).await.unwrap();
        let since = claim.status.and_then(|status| status.claimed_at);
        since.is_some_and(|since| Some(since) == claim.metadata.creation_timestamp)
    })
    .await;
    // The zone can't go before what is in it; those who wait are told.
    scene.zones().delete("lab", &kube::api::DeleteParams::default()).await.unwrap();
    scene.says(("shop", "shop"), (ConditionType::Claimed, "False", "ZoneNotFound")).await;
    for name in ["shop", "first"] {
        scene.delete("shop", name).await;
        scene.gone("shop", name).await;
    }
    scene.is_bare().await;
    eventually("the zone is gone", || async { scene.zones().get_opt("lab").await.unwrap().is_none() }).await;
    operator.stop().await;
}

#[tokio::test]
async fn names_that_come_in_any_order_cost_no_writes_once_they_are_there() {
    let scene = Scene::new().await;
    let applied = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&applied);
    let client = scene.cluster.operator_through(move |request| {
        if request.method() == http::Method::PATCH {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        std::future::ready(())
    });
    let supply = scene.supply.clone();
    let operator = Cluster::configured_with(client, |config| {
        config.hostnames.suppliers = Some(SuppliersRef::new(supply));
        config.hostnames.sweep = Duration::from_millis(300);
    });
    scene.namespace("shop").await;
    for name in ["m", "b", "z", "a"] {
        scene.ask("shop", name, &format!("{name}.example.test")).await;
        scene.ready("shop", name).await;
    }
    operator.looked("hostnames", 3).await;
    let before = applied.load(Ordering::SeqCst);
    operator.looked("hostnames", 6).await;
    assert_eq!(applied.load(Ordering::SeqCst), before);
    operator.stop().await;
}

#[tokio::test]
async fn our_own_dns_server_goes_with_the_last_record() {
    let scene = Scene::new().await;
    let labels = json!({
        names::LABEL_MANAGED_BY: names::MANAGED_BY, names::LABEL_COMPONENT: "hostnames",
    });
    let maps = Api::<ConfigMap>::namespaced(scene.client(), EDGE);
    let zone = |stored: Value| json!({"zone.example.test": stored.to_string()});
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "hostnames-dns", "labels": labels},
        "data": zone(json!({"names": {"x.example.test": {"records": {}, "owners": []}}})),
    }))
    .unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let operator = quick(&scene);
    operator.looked("hostnames", 3).await;
    assert!(maps.get_opt("hostnames-dns").await.unwrap().is_some(), "something is still kept in it");
    let data: BTreeMap<String, String> = serde_json::from_value(zone(json!({"names": {}}))).unwrap();
    let patch = json!({"data": data});
    maps.patch("hostnames-dns", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    eventually("it is gone", || async { maps.get_opt("hostnames-dns").await.unwrap().is_none() }).await;
    operator.stop().await;
}
