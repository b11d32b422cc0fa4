//! The operator is killed after each single call to an issuer or to DNS; the next one ends where an undisturbed one would have.

use std::sync::Arc;

use causeway_testkit::eventually;
use serde_json::json;
use tokio::sync::Notify;

use super::scene::{Fuse, Scene, Supply};

/// Plays a part of a life with an operator that is killed after this many calls, and another one after it; whether it was killed.
async fn interrupted(scene: &Scene, blows_after: usize, ends: impl AsyncFn() -> bool) -> bool {
    let fuse = Fuse { blows_after, ..Fuse::default() };
    let supply = Supply { fuse: fuse.clone(), ..scene.supply.clone() };
    let operator = scene.operator_with(supply, |_| {});
    let killed = tokio::select! {
        () = fuse.blown.notified() => true,
        () = async {
            eventually("the end", || async { ends().await }).await;
        } => false,
    };
    operator.kill().await;
    if killed {
        let operator = scene.operator();
        eventually("the end, after a kill", || async { ends().await }).await;
        operator.stop().await;
    }
    killed
}

async fn is_ready(scene: &Scene, hostname: &str) -> bool {
    let request = scene.requests("shop").get("shop").await.unwrap();
    let generation = request.metadata.generation;
    let Some(status) = request.status else { return false };
    status.hostnames.first().is_some_and(|name| name == hostname)
        && status
            .conditions
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True" && one.observed_generation == generation)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_any_call_changes_nothing_in_the_end() {
    for blows_after in 1.. {
        let scene = Scene::new().await;
        scene.namespace("shop").await;
        scene.ask("shop", "shop", "one.example.test").await;
        let mut killed =
            interrupted(&scene, blows_after, async || is_ready(&scene, "one.example.test").await).await;
        assert_eq!(scene.supply.zones.names().len(), 1);

        scene.change("shop", "shop", json!({"hostname": "two.example.test"})).await;
        killed |= interrupted(&scene, blows_after, async || {
            is_ready(&scene, "two.example.test").await
                && scene.supply.zones.names().into_iter().eq(["two.example.test".to_owned()])
                && scene.claims().await.len() == 1
                && scene.orders().await.len() == 1
        })
        .await;

        scene.delete("shop", "shop").await;
        killed |= interrupted(&scene, blows_after, async || {
            scene.requests("shop").get_opt("shop").await.unwrap().is_none()
                && scene.supply.zones.names().is_empty()
                && scene.claims().await.is_empty()
                && scene.orders().await.is_empty()
                && scene.gateways().await.is_empty()
        })
        .await;
        for ((id, serial), serials) in scene.supply.signed.lock().unwrap().iter() {
            assert!(
                serials.len() <= 2,
                "{id} {serial} was signed {} times after {blows_after} calls",
                serials.len()
            );
        }
        if !killed {
            assert!(blows_after > 5, "only {blows_after} calls were seen");
            println!("killed after each of {} calls", blows_after - 1);
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_deleted_at_any_step_of_its_creation_leaves_nothing() {
    for step in 1.. {
        let scene = Scene::new().await;
        scene.namespace("shop").await;
        let (blown, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let fuse = Fuse { blows_after: step, blown, go: Some(go), ..Fuse::default() };
        let supply = Supply { fuse: fuse.clone(), ..scene.supply.clone() };
        let operator = scene.operator_with(supply, |_| {});
        scene.ask("shop", "shop", "one.example.test").await;
        let held = tokio::select! {
            () = fuse.blown.notified() => true,
            () = async {
                eventually("it is there", || async { is_ready(&scene, "one.example.test").await }).await;
            } => false,
        };
        scene.delete("shop", "shop").await;
        fuse.go.as_ref().unwrap().notify_one();
        scene.gone("shop", "shop").await;
        scene.is_bare().await;
        assert_eq!(scene.supply.zones.names().len(), 0, "after {step} calls");
        operator.stop().await;
        if !held {
            assert!(step > 5, "only {step} calls were seen");
            println!("deleted after each of {} calls", step - 1);
            return;
        }
    }
}
