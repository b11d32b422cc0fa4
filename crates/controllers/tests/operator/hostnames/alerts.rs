//! What alerts rest on: each figure that a rule or the dashboard names is there, and says what the alert takes it for.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use causeway_api::{conditions::ConditionType, names};
use causeway_providers::Error;
use causeway_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::scene::{Scene, Supply};
use crate::cluster::Running;

const PENDING: &str = "causeway_hostnames_certificate_longest_pending_seconds";
const EXPIRY: &str = "causeway_hostnames_certificate_earliest_expiry_timestamp";
const DNS_FAILS: &str = "causeway_hostnames_provider_failing_since_timestamp{provider=\"Dns\"}";
const ISSUER_FAILS: &str = "causeway_hostnames_provider_failing_since_timestamp{provider=\"Issuer\"}";

fn quick(scene: &Scene) -> Running {
    scene.operator_with(scene.supply.clone(), |config| config.hostnames.sweep = Duration::from_millis(300))
}

/// Waits until a figure is like that; the figure.
async fn figure(operator: &Running, name: &str, is_so: impl Fn(f64) -> bool) -> f64 {
    eventually(name, || async {
        let value = operator.figure(name);
        value.filter(|value| is_so(*value)).ok_or(format!("{value:?}"))
    })
    .await
}

/// Lets the operator look at everything once more.
async fn poke(scene: &Scene, times: u32) {
    let patch = json!({"metadata": {"annotations": {"test": times.to_string()}}});
    scene.requests("shop").patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test]
async fn every_figure_of_a_rule_and_of_the_dashboard_is_there() {
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart/files");
    let mut named = BTreeSet::new();
    for file in ["prometheus-rules.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(format!("{files}/{file}")).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        named.extend(words.filter(|word| word.starts_with("causeway_")).map(ToOwned::to_owned));
    }
    assert!(named.len() > 8, "{named:?}");
    let scene = Scene::new().await;
    let operator = quick(&scene);
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "shop.example.test").await;
    scene.ready("shop", "shop").await;
    let there = operator.scrape();
    let sources = ["framework", "hostnames"].map(|folder| {
        let file = format!("{}/src/{folder}/metrics.rs", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(file).unwrap()
    });
    for name in named {
        let bare = ["_total", "_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
        let typed = format!("# TYPE {} ", bare.unwrap_or(&name));
        // One that counts what has not happened is not there yet.
        let registered = ["", "causeway_operator_", "causeway_hostnames_"].iter().any(|front| {
            let own = bare.unwrap_or(&name).strip_prefix(front).unwrap_or_default();
            sources.iter().any(|source| source.contains(&format!("\"{own}\"")))
        });
        assert!(
            there.contains(&typed) || registered,
            "{name} is nowhere in what Prometheus would read:\n{there}"
        );
    }
    // And those of hostnames say how things are.
    figure(&operator, "causeway_hostnames_requests{state=\"Ready\"}", |count| (1.0..2.0).contains(&count))
        .await;
    figure(&operator, "causeway_hostnames_gateways", |count| (1.0..2.0).contains(&count)).await;
    assert_eq!(operator.figure("causeway_hostnames_certificate_issuance_duration_seconds_count"), Some(1.0));
    assert!(operator.figure(EXPIRY).unwrap() > Timestamp::now().as_second() as f64);
    assert_eq!(operator.figure(PENDING), Some(0.0));
    assert_eq!((operator.figure(DNS_FAILS), operator.figure(ISSUER_FAILS)), (Some(0.0), Some(0.0)));
    scene.supply.zones.remove("shop.example.test");
    figure(&operator, "causeway_hostnames_drift_total", |count| count >= 1.0).await;
    operator.stop().await;
}

fn unavailable() -> Error {
    Error::Unavailable { at: "the peer".into(), source: Arc::new(std::fmt::Error) }
}

#[tokio::test]
async fn a_provider_that_can_not_be_reached_is_failing_since_the_first_time() {
    let scene = Scene::new().await;
    let operator = quick(&scene);
    scene.namespace("shop").await;
    *scene.supply.dns_refuses.lock().unwrap() = Some(unavailable());
    scene.ask("shop", "shop", "shop.example.test").await;
    let since = figure(&operator, DNS_FAILS, |since| since > 0.0).await;
    let failures = "causeway_hostnames_provider_failures_total{provider=\"Dns\"}";
    figure(&operator, failures, |count| count >= 3.0).await;
    assert_eq!(operator.figure(DNS_FAILS), Some(since), "each failure is told as a new one");
    *scene.supply.dns_refuses.lock().unwrap() = None;
    scene.ready("shop", "shop").await;
    figure(&operator, DNS_FAILS, |since| since == 0.0).await;
    // What is served goes on being served, and still it is known that nobody can be asked.
    *scene.supply.dns_refuses.lock().unwrap() = Some(unavailable());
    figure(&operator, DNS_FAILS, |since| since > 0.0).await;
    scene.ready("shop", "shop").await;
    *scene.supply.dns_refuses.lock().unwrap() = None;

    scene.supply.issuers_missing.store(true, Ordering::SeqCst);
    scene.change("shop", "shop", json!({"additionalHostnames": ["www.example.test"]})).await;
    let since = figure(&operator, ISSUER_FAILS, |since| since > 0.0).await;
    let failures = "causeway_hostnames_provider_failures_total{provider=\"Issuer\"}";
    figure(&operator, failures, |count| count >= 3.0).await;
    assert_eq!(operator.figure(ISSUER_FAILS), Some(since));
    scene.supply.issuers_missing.store(false, Ordering::SeqCst);
    scene.ready("shop", "shop").await;
    figure(&operator, ISSUER_FAILS, |since| since == 0.0).await;
    operator.stop().await;
}

/// How far the operator's clock is ahead, in seconds: of one test each.
static AHEAD: AtomicI64 = AtomicI64::new(0);
static LATER: AtomicI64 = AtomicI64::new(0);

fn ahead() -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs(AHEAD.load(Ordering::SeqCst))
}

fn later() -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs(LATER.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_certificate_that_fails_again_and_again_is_waited_for_since_the_first_time() {
    let scene = Scene::new().await;
    let operator = scene.operator_with(scene.supply.clone(), |config| config.hostnames.now = ahead);
    scene.namespace("shop").await;
    scene.supply.issuer_fails.store(true, Ordering::SeqCst);
    scene.ask("shop", "shop", "shop.example.test").await;
    scene.says(("shop", "shop"), (ConditionType::CertificateIssued, "False", "ValidationFailed")).await;
    // It is tried again after a minute, two, four and so on.
    for times in 1..6 {
        AHEAD.fetch_add(600, Ordering::SeqCst);
        poke(&scene, times).await;
        let least = f64::from(times) * 600.0;
        figure(&operator, PENDING, |pending| pending >= least).await;
    }
    let failures = "causeway_hostnames_provider_failures_total{provider=\"Issuer\"}";
    figure(&operator, failures, |count| count >= 3.0).await;
    scene.supply.issuer_fails.store(false, Ordering::SeqCst);
    AHEAD.fetch_add(7 * 3600, Ordering::SeqCst);
    poke(&scene, 99).await;
    scene.ready("shop", "shop").await;
    figure(&operator, PENDING, |pending| pending == 0.0).await;
    operator.stop().await;
}

#[tokio::test]
async fn a_certificate_that_has_ended_is_still_the_first_to_end() {
    let mut scene = Scene::new().await;
    scene.supply = Supply { lifetime: Duration::from_hours(1), ..scene.supply.clone() };
    let operator = scene.operator_with(scene.supply.clone(), |config| config.hostnames.now = later);
    scene.namespace("shop").await;
    scene.ask("shop", "shop", "shop.example.test").await;
    scene.ready("shop", "shop").await;
    let ends = figure(&operator, EXPIRY, |ends| ends > 0.0).await;
    *scene.supply.issuer_refuses.lock().unwrap() =
        Some(Error::Denied { missing: names::MANAGED_BY.into(), said: "no".into() });
    LATER.store(7200, Ordering::SeqCst);
    poke(&scene, 1).await;
    figure(&operator, PENDING, |pending| pending > 0.0).await;
    assert_eq!(operator.figure(EXPIRY), Some(ends), "the alert on it is over when it is worst");
    *scene.supply.issuer_refuses.lock().unwrap() = None;
    operator.stop().await;
}
