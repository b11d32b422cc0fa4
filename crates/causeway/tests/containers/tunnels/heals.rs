//! Everything that can end by itself, and how the proxy gets over it.

use std::sync::atomic::Ordering;

use causeway_api::{TunnelProxyState, TunnelState, conditions::ConditionType};
use causeway_containers::{
    Kind,
    fake::{Fault, Operation},
};
use causeway_testkit::eventually;
use kube::api::{Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;

use super::servers::{Conversation, ask};
use super::world::{
    NETWORK, World, answers, descriptors, is_running, kill, limit_descriptors, port, signal, to, tunnel,
};
use crate::testbed::BOTH;

#[tokio::test]
async fn a_container_that_cannot_start_is_tried_again() {
    for kind in BOTH {
        let world = World::start(kind).await;
        world.bed.fake.fault(Operation::StartContainer, Fault::error(500, "no space left on device"), 2);
        let proxy = world.create_proxy("lab", &[]).await;
        let told = |now: &causeway_api::ContainerNetworkTunnelProxyStatus| {
            now.message.as_deref().is_some_and(|text| text.contains("no space left on device"))
        };
        world.status("lab", "why it does not start", told).await;
        world.ready("lab").await;
        assert!(world.container(&proxy).unwrap().running);
        assert_eq!(world.bed.fake.containers().len(), 1);
        world.end().await;
    }
}

#[tokio::test]
async fn a_container_that_does_not_answer_is_told_of_and_found_when_it_does() {
    let world = World::start(Kind::Docker).await;
    world.deaf.store(true, Ordering::SeqCst);
    let proxy = world.create_proxy("lab", &[]).await;
    world.condition("lab", ConditionType::LinkUp, "False", "Disconnected").await;
    world.status("lab", "Starting", |now| now.state == Some(TunnelProxyState::Starting)).await;
    world.deaf.store(false, Ordering::SeqCst);
    world.bed.fake.exit(&world.container(&proxy).unwrap().name, 1);
    world.ready("lab").await;
    world.end().await;
}

#[tokio::test]
async fn a_container_that_ends_comes_back_the_same() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _servers = (world.server("a").await, world.server("b").await);
        let proxy = world.create_proxy("lab", &[to("a"), to("b")]).await;
        let before = world.ready("lab").await;
        let name = world.container(&proxy).unwrap().name;
        for round in 0..3 {
            world.bed.fake.exit(&name, 5);
            eventually("it runs again", async || world.container(&proxy).is_some_and(|found| found.running))
                .await;
            for one in ["a", "b"] {
                answers(port(&tunnel(&before, one)), one).await;
            }
            let after = world.ready("lab").await;
            assert_eq!(after.client_proxy_control_port, before.client_proxy_control_port, "round {round}");
            assert_eq!(after.client_proxy_data_port, before.client_proxy_data_port, "round {round}");
        }
        let journal = std::fs::read_to_string(before.server_proxy_std_out_file.unwrap()).unwrap();
        assert!(journal.contains("exit code 5"), "{journal}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_container_that_someone_removed_is_made_again() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let proxy = world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        let old = world.container(&proxy).unwrap();
        world.bed.fake.drop_container(&old.name);
        let after = world
            .status("lab", "another container", |now| {
                now.client_proxy_container_id.as_ref().is_some_and(|id| *id != old.id)
            })
            .await;
        assert_eq!(after.client_proxy_control_port, before.client_proxy_control_port);
        answers(port(&tunnel(&before, "web")), "web").await;
        world.end().await;
    }
}

#[tokio::test]
async fn an_operator_that_restarts_finds_everything_as_it_left_it_and_no_stream_notices() {
    for kind in BOTH {
        let mut world = World::start(kind).await;
        let _servers = (world.server("a").await, world.server("b").await);
        let proxy = world.create_proxy("lab", &[to("a"), to("b")]).await;
        let before = world.ready("lab").await;
        let mut open = Conversation::begin(port(&tunnel(&before, "a"))).await;
        let slices = world.slices_of("a-in").await;
        world.bed.stop_operator().await;
        open.goes_on().await;
        assert!(world.container(&proxy).unwrap().running);
        for one in ["a", "b"] {
            assert_eq!(ask(port(&tunnel(&before, one))).await.unwrap(), one, "new streams pass too");
        }
        world.bed.start_operator();
        let after = world.ready("lab").await;
        open.goes_on().await;
        for one in ["a", "b"] {
            let (before, after) = (tunnel(&before, one), tunnel(&after, one));
            assert_eq!(after.client_proxy_port, before.client_proxy_port);
            assert_eq!(after.tunnel_id, before.tunnel_id);
        }
        assert_eq!(after.client_proxy_control_port, before.client_proxy_control_port);
        assert_eq!(after.client_proxy_container_id, before.client_proxy_container_id);
        assert_eq!(after.server_proxy_process_id, before.server_proxy_process_id, "adopted");
        assert_eq!(after.server_proxy_startup_timestamp, before.server_proxy_startup_timestamp);
        // What the next operator changes reaches the same process.
        let _late = world.server("late").await;
        world.set_tunnels("lab", &[to("a"), to("b"), to("late")]).await;
        let late = world.tunnel("lab", "late", TunnelState::Ready).await;
        assert_eq!(ask(port(&late)).await.unwrap(), "late");
        open.goes_on().await;
        let same = world.slices_of("a-in").await;
        assert_eq!(same[0].metadata.uid, slices[0].metadata.uid, "the slices were not taken back meanwhile");
        world.end().await;
    }
}

#[tokio::test]
async fn a_host_end_that_dies_is_started_again() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    world.create_proxy("lab", &[to("web")]).await;
    let before = world.ready("lab").await;
    let process = before.server_proxy_process_id.unwrap();
    kill(process);
    let after = world
        .status("lab", "another host end", |now| {
            now.server_proxy_process_id.is_some_and(|other| other != process)
        })
        .await;
    answers(port(&tunnel(&before, "web")), "web").await;
    assert_eq!(after.client_proxy_container_id, before.client_proxy_container_id);
    world.ready("lab").await;
    world.end().await;
}

#[tokio::test]
async fn a_host_end_that_does_not_answer_is_no_reason_to_wait_for_ever_at_the_end() {
    let world = World::start(Kind::Docker).await;
    world.create_proxy("lab", &[]).await;
    let process = world.ready("lab").await.server_proxy_process_id.unwrap();
    signal(process, Signal::STOP);
    world.delete_proxy("lab").await;
    world.proxy_gone("lab").await;
    assert!(!is_running(process));
    world.end().await;
}

#[tokio::test]
async fn a_host_end_that_hangs_when_it_is_to_be_adopted_is_told_of_and_left_alone() {
    let mut world = World::start(Kind::Docker).await;
    world.create_proxy("lab", &[]).await;
    let process = world.ready("lab").await.server_proxy_process_id.unwrap();
    world.bed.stop_operator().await;
    signal(process, Signal::STOP);
    world.bed.start_operator();
    let message = world.condition("lab", ConditionType::LinkUp, "False", "Disconnected").await;
    assert!(message.contains(&format!("process {process}, does not answer")), "{message}");
    world.condition("lab", ConditionType::Ready, "False", "Disconnected").await;
    signal(process, Signal::CONT);
    assert_eq!(world.ready("lab").await.server_proxy_process_id, Some(process));
    world.end().await;
}

#[tokio::test]
async fn a_host_end_without_descriptors_is_adopted_when_it_has_some() {
    let mut world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    world.create_proxy("lab", &[to("web")]).await;
    let before = world.ready("lab").await;
    let (process, through) = (before.server_proxy_process_id.unwrap(), port(&tunnel(&before, "web")));
    let mut open = Conversation::begin(through).await;
    limit_descriptors(process, descriptors(process) + 4);
    let mut crowd = Vec::new();
    while let Ok(stream) = Conversation::try_begin(through).await {
        crowd.push(stream);
    }
    world.bed.stop_operator().await;
    let last = eventually("the descriptor of the operator's connection is taken", async || {
        Conversation::try_begin(through).await
    });
    crowd.push(last.await);
    world.bed.start_operator();
    world.condition("lab", ConditionType::LinkUp, "False", "Disconnected").await;
    open.goes_on().await;
    drop(crowd);
    assert_eq!(world.ready("lab").await.server_proxy_process_id, Some(process));
    open.goes_on().await;
    let output = std::fs::metadata(world.bed.directory().join("default/lab/host.log")).unwrap().len();
    assert!(output < 100_000, "{output} bytes of output");
    world.end().await;
}

#[tokio::test]
async fn a_host_end_that_somebody_else_ended_is_started_again_with_its_plan() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    world.create_proxy("lab", &[to("web")]).await;
    let before = world.ready("lab").await;
    // As `causeway down --all` on the same directory does.
    causeway_controllers::containers::tunnel::end_all(world.bed.directory()).await.unwrap();
    let after = world
        .status("lab", "another host end", |now| {
            let process = now.server_proxy_process_id;
            process.is_some() && process != before.server_proxy_process_id
        })
        .await;
    assert_eq!(after.client_proxy_container_id, before.client_proxy_container_id);
    world.ready("lab").await;
    answers(port(&tunnel(&before, "web")), "web").await;
    world.end().await;
}

#[tokio::test]
async fn a_directory_that_can_not_be_taken_over_is_told_of() {
    let world = World::start(Kind::Docker).await;
    let owner = world.bed.directory().join("default/lab/owner");
    std::fs::create_dir_all(&owner).unwrap();
    world.create_proxy("lab", &[]).await;
    let message = world.condition("lab", ConditionType::Ready, "False", "NotReady").await;
    assert!(message.contains("default/lab/owner"), "{message}");
    std::fs::remove_dir(&owner).unwrap();
    world.ready("lab").await;
    world.end().await;
}

#[tokio::test]
async fn a_namesake_of_a_proxy_that_was_deleted_by_force_keeps_what_is_its_own() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let old = world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        let process = before.server_proxy_process_id.unwrap();
        // Its end waits for a stream, and somebody does not wait for its end.
        let open = Conversation::begin(port(&tunnel(&before, "web"))).await;
        world.delete_proxy("lab").await;
        let patch = json!({ "metadata": { "finalizers": null } });
        world.proxies().patch("lab", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        world.proxy_gone("lab").await;
        let new = world.create_proxy("lab", &[to("web")]).await;
        drop(open);
        let status = world.ready("lab").await;
        eventually("nothing of the old one is left", async || {
            world.container(&old).is_none() && !is_running(process)
        })
        .await;
        let directory = world.bed.directory().join("default/lab");
        assert_eq!(std::fs::read_to_string(directory.join("owner")).ok(), new.metadata.uid);
        for file in ["authority.pem", "plan.json", "host.json", "host.sock", "host.lock"] {
            assert!(directory.join(file).exists(), "{file}");
        }
        assert_ne!(status.server_proxy_process_id, Some(process));
        answers(port(&tunnel(&status, "web")), "web").await;
        world.end().await;
    }
}

#[tokio::test]
async fn host_ends_of_proxies_that_went_unseen_are_ended_at_the_start() {
    let mut world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    let proxy = world.create_proxy("lab", &[to("web")]).await;
    world.create_proxy("stays", &[]).await;
    let process = world.ready("lab").await.server_proxy_process_id.unwrap();
    let other = world.ready("stays").await.server_proxy_process_id.unwrap();
    world.bed.stop_operator().await;
    // Somebody deletes it by force while nobody looks.
    let patch = json!({ "metadata": { "finalizers": null } });
    world.proxies().patch("lab", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    world.delete_proxy("lab").await;
    world.proxy_gone("lab").await;
    assert!(is_running(process));
    world.bed.start_operator();
    eventually("its host end is gone", async || !is_running(process)).await;
    eventually("its container is gone", async || world.container(&proxy).is_none()).await;
    let directory = world.bed.directory().join("default/lab");
    eventually("its keys are gone", async || !directory.join("authority.pem").exists()).await;
    assert_eq!(world.ready("stays").await.server_proxy_process_id, Some(other), "others are left alone");
    world.end().await;
}

#[tokio::test]
async fn a_host_end_whose_directory_is_gone_ends_by_itself() {
    let mut world = World::start(Kind::Docker).await;
    world.create_proxy("lab", &[]).await;
    let process = world.ready("lab").await.server_proxy_process_id.unwrap();
    world.bed.stop_operator().await;
    std::fs::remove_dir_all(world.bed.directory().join("default/lab")).unwrap();
    eventually("nobody could ever find it again", async || !is_running(process)).await;
}

#[tokio::test]
async fn a_runtime_that_is_away_harms_no_traffic() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let web = world.server("web").await;
        world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        let through = port(&tunnel(&before, "web"));
        world.bed.fake.die();
        world.condition("lab", ConditionType::RuntimeAvailable, "False", "RuntimeUnavailable").await;
        assert_eq!(ask(through).await.unwrap(), "web");
        // Tunnels come and go all the same.
        let _late = world.server("late").await;
        world.set_tunnels("lab", &[to("web"), to("late")]).await;
        let late = world.tunnel("lab", "late", TunnelState::Ready).await;
        assert_eq!(ask(port(&late)).await.unwrap(), "late");
        world.bed.fake.restart();
        world.condition("lab", ConditionType::RuntimeAvailable, "True", "Ready").await;
        let after = world.ready("lab").await;
        assert_eq!(after.client_proxy_container_id, before.client_proxy_container_id);
        assert_eq!(ask(through).await.unwrap(), "web");
        drop(web);
        world.end().await;
    }
}

#[tokio::test]
async fn a_proxy_that_goes_while_the_runtime_is_away_waits_for_it_and_leaves_nothing() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let proxy = world.create_proxy("lab", &[to("web")]).await;
        world.ready("lab").await;
        world.bed.fake.die();
        world.condition("lab", ConditionType::RuntimeAvailable, "False", "RuntimeUnavailable").await;
        world.delete_proxy("lab").await;
        world.no_slices_of("web-in").await;
        let message = world.condition("lab", ConditionType::Deleting, "True", "CleanupFailed").await;
        assert!(message.contains(&world.container(&proxy).unwrap().name), "{message}");
        world.bed.fake.restart();
        world.proxy_gone("lab").await;
        assert!(world.container(&proxy).is_none());
        world.end().await;
    }
}

#[tokio::test]
async fn a_backend_that_is_down_is_refused_at_once_and_told_of() {
    let world = World::start(Kind::Docker).await;
    let (web, _other) = (world.server("web").await, world.server("other").await);
    world.create_proxy("lab", &[to("web"), to("other")]).await;
    let status = world.ready("lab").await;
    let (web_port, other_port) = (port(&tunnel(&status, "web")), port(&tunnel(&status, "other")));
    drop(web);
    super::world::is_silent(web_port).await;
    assert_eq!(ask(other_port).await.unwrap(), "other");
    eventually("it is told why", async || {
        world.tunnel("lab", "web", TunnelState::NotReady).await.error_message.is_some()
    })
    .await;
    world.tunnel("lab", "other", TunnelState::Ready).await;
    world.end().await;
}

#[tokio::test]
async fn a_base_image_is_used_and_one_that_cannot_be_had_is_told_of() {
    let world = World::start(Kind::Docker).await;
    world.bed.fake.add_image("debian:13");
    world.create_proxy_with("lab", &[], json!({ "baseImage": "debian:13" })).await;
    world.ready("lab").await;
    assert!(world.bed.fake.dockerfiles().iter().any(|text| text.contains("FROM debian:13")));
    world.create_proxy_with("other", &[], json!({ "baseImage": "nowhere/gone:1" })).await;
    let message = world.condition("other", ConditionType::ImageBuilt, "False", "ImageBuildFailed").await;
    assert!(message.contains("nowhere/gone:1") && message.contains("leave baseImage out"), "{message}");
    world.running("lab").await;
    world.delete_proxy("other").await;
    world.proxy_gone("other").await;
    assert_eq!(world.bed.fake.networks(), [NETWORK]);
    world.end().await;
}
