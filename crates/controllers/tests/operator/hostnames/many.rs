//! Many requests at once: every name has one owner, pools are as large as they must be, and nothing is left.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Instant};

use causeway_testkit::eventually;
use futures::{StreamExt as _, stream};
use kube::api::ListParams;

use super::scene::Scene;

const NAMESPACES: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_from_many_namespaces() {
    let requests: usize =
        std::env::var("CAUSEWAY_MANY_HOSTNAMES").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let conflicting = requests / 10;
    let scene = Scene::new().await;
    let operator = scene.operator();
    for number in 0..NAMESPACES {
        scene.namespace(&format!("team-{number}")).await;
    }
    let started = Instant::now();
    stream::iter(0..requests)
        .for_each_concurrent(32, |number| {
            let scene = &scene;
            async move {
                // The last tenth asks for names that others have.
                let name =
                    if number < requests - conflicting { number } else { number - (requests - conflicting) };
                let namespace = format!("team-{}", number % NAMESPACES);
                scene.ask(&namespace, &format!("r{number}"), &format!("n{name}.example.test")).await;
            }
        })
        .await;
    let all = kube::Api::<causeway_api::GatewayHostnameRequest>::all(scene.client());
    let wanted = requests - conflicting;
    eventually("all names are ready, and the others wait", || async {
        let list = all.list(&ListParams::default()).await.unwrap().items;
        let said = |kind: &str, status: &str, reason: &str| {
            list.iter()
                .filter(|request| {
                    let conditions = request
                        .status
                        .as_ref()
                        .map(|status| status.conditions.as_slice())
                        .unwrap_or_default();
                    conditions
                        .iter()
                        .any(|one| one.type_ == kind && one.status == status && one.reason == reason)
                })
                .count()
        };
        said("Ready", "True", "Ready") == wanted && said("Claimed", "False", "AlreadyClaimed") == conflicting
    })
    .await;
    let took = started.elapsed();
    let claims = scene.claims().await;
    assert_eq!(claims.len(), wanted);
    let mut pool: BTreeMap<String, usize> = BTreeMap::new();
    for gateway in scene.gateways().await {
        let listeners = gateway.data["spec"]["listeners"].as_array().unwrap().len() - 1;
        pool.insert(gateway.metadata.name.clone().unwrap(), listeners);
    }
    assert_eq!(pool.len(), wanted.div_ceil(20), "{pool:?}");
    assert!(pool.values().all(|count| *count <= 20), "{pool:?}");
    let applies = scene.supply.applies.load(Ordering::SeqCst);
    println!(
        "{requests} requests: all ready after {:.1} s, {applies} calls to DNS, {} to issuers and DNS together",
        took.as_secs_f64(),
        scene.supply.fuse.calls.load(Ordering::SeqCst)
    );
    stream::iter(0..requests)
        .for_each_concurrent(32, |number| {
            let scene = &scene;
            async move { scene.delete(&format!("team-{}", number % NAMESPACES), &format!("r{number}")).await }
        })
        .await;
    eventually("all requests are gone", || async {
        all.list(&ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    scene.is_bare().await;
    operator.stop().await;
}
