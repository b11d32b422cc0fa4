//! What the prior system got wrong, one test for each.

use std::net::{Ipv4Addr, TcpListener};

use causeway_api::{TunnelProxyState, TunnelState, conditions::ConditionType};
use causeway_containers::{
    Attachment, ContainerSpec, Kind,
    fake::{Fault, Operation},
    labels,
};
use causeway_testkit::eventually;
use kube::ResourceExt;
use serde_json::json;

use super::servers::{Echo, ask, connections_to};
use super::world::{NETWORK, World, answers, is_silent, named, port, to, tunnel};
use crate::testbed::{BOTH, INSTANCE};

/// D1.
#[tokio::test]
async fn a_namesake_begins_afresh_but_for_its_ports() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let first = world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        world.delete_proxy("lab").await;
        world.proxy_gone("lab").await;
        let second = world.create_proxy("lab", &[to("web")]).await;
        let after = world.ready("lab").await;
        assert!(world.container(&first).is_none() && world.container(&second).unwrap().running);
        assert_eq!(after.client_proxy_container_id, world.container(&second).map(|found| found.id));
        assert_eq!(tunnel(&after, "web").client_proxy_port, tunnel(&before, "web").client_proxy_port);
        assert_eq!(ask(port(&tunnel(&after, "web"))).await.unwrap(), "web");
        world.end().await;
    }
}

/// D2.
#[tokio::test]
async fn a_runtime_that_fails_during_the_image_check_or_build_is_asked_again() {
    for kind in BOTH {
        let world = World::start(kind).await;
        world.bed.ready(NETWORK).await;
        world.bed.fake.fault(Operation::InspectImage, Fault::error(500, "database is locked"), 2);
        world.bed.fake.fault(Operation::Build, Fault::stream_error("disk full"), 1);
        world.create_proxy("lab", &[]).await;
        world.ready("lab").await;
        let journal = std::fs::read_to_string(world.bed.directory().join("default/lab/journal.log")).unwrap();
        assert!(journal.contains("database is locked") && journal.contains("disk full"), "{journal}");

        // One that stays in the build can be deleted, and holds nobody up.
        world.bed.fake.add_image("base:1");
        world.bed.fake.fault(Operation::Build, Fault::Hang, 1);
        world.create_proxy_with("stuck", &[], json!({ "baseImage": "base:1" })).await;
        world
            .status("stuck", "BuildingImage", |now| now.state == Some(TunnelProxyState::BuildingImage))
            .await;
        world.delete_proxy("stuck").await;
        world.proxy_gone("stuck").await;
        world.running("lab").await;
        world.end().await;
    }
}

/// D3.
#[tokio::test]
async fn nobody_is_sent_to_a_proxy_that_is_gone() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        world.create_proxy("lab", &[to("web")]).await;
        world.ready("lab").await;
        assert!(!world.slices_of("web-in").await.is_empty());
        world.delete_proxy("lab").await;
        world.proxy_gone("lab").await;
        assert!(world.slices_of("web-in").await.is_empty());
        world.end().await;
    }
}

/// D4.
#[tokio::test]
async fn a_server_that_moves_without_a_gap_is_followed() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _first = world.server("web").await;
        world.create_proxy("lab", &[to("web")]).await;
        let before = tunnel(&world.ready("lab").await, "web");
        assert_eq!(ask(port(&before)).await.unwrap(), "web");
        let second = Echo::start("moved").await;
        world.endpoint("web", Some(second.port)).await;
        answers(port(&before), "moved").await;
        let after = world.tunnel("lab", "web", TunnelState::Ready).await;
        assert_eq!((after.tunnel_id, after.client_proxy_port), (before.tunnel_id, before.client_proxy_port));
        world.end().await;
    }
}

/// D5.
#[tokio::test]
async fn two_tunnels_to_one_service_live_apart() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        world.create_proxy("lab", &[named("one", "web"), named("two", "web")]).await;
        let status = world.ready("lab").await;
        let (one, two) = (tunnel(&status, "one"), tunnel(&status, "two"));
        assert_ne!(one.tunnel_id, two.tunnel_id);
        assert_ne!(one.client_proxy_port, two.client_proxy_port);
        assert_eq!(world.slices_of("web-in").await.len(), 2);
        world.set_tunnels("lab", &[named("two", "web")]).await;
        world.status("lab", "one tunnel", |now| now.tunnel_statuses.len() == 1).await;
        is_silent(port(&one)).await;
        assert_eq!(ask(port(&two)).await.unwrap(), "web");
        assert_eq!(world.slices_of("web-in").await.len(), 1);
        world.end().await;
    }
}

/// D6.
#[tokio::test]
async fn a_tunnel_that_failed_gets_another_chance_under_its_name() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let (taken, wanted) = causeway_testkit::port::taken();
        let mut fixed = to("web");
        fixed["clientPort"] = json!(wanted);
        world.create_proxy("lab", std::slice::from_ref(&fixed)).await;
        world.tunnel("lab", "web", TunnelState::Failed).await;
        world.set_tunnels("lab", &[]).await;
        world.status("lab", "no tunnel", |now| now.tunnel_statuses.is_empty()).await;
        drop(taken);
        world.set_tunnels("lab", &[fixed]).await;
        let status = world.ready("lab").await;
        assert_eq!(port(&tunnel(&status, "web")), wanted);
        assert_eq!(ask(wanted).await.unwrap(), "web");
        world.end().await;
    }
}

/// D7.
#[tokio::test]
async fn a_tunnel_is_taken_back_also_when_its_container_cannot_be_told() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _servers = (world.server("web").await, world.server("other").await);
        let proxy = world.create_proxy("lab", &[to("web"), to("other")]).await;
        world.ready("lab").await;
        world.deaf.store(true, std::sync::atomic::Ordering::SeqCst);
        world.bed.fake.exit(&world.container(&proxy).unwrap().name, 137);
        world.condition("lab", ConditionType::LinkUp, "False", "Disconnected").await;
        world.set_tunnels("lab", &[to("other")]).await;
        world.no_slices_of("web-in").await;
        world.status("lab", "one tunnel", |now| now.tunnel_statuses.len() == 1).await;
        world.end().await;
    }
}

/// D8.
#[tokio::test]
async fn changes_of_tunnels_leave_no_connections_behind() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    world.create_proxy("lab", &[to("web")]).await;
    let status = world.ready("lab").await;
    let wired = |now: Option<i32>| connections_to(u16::try_from(now.unwrap()).unwrap());
    let before = (wired(status.client_proxy_control_port), wired(status.client_proxy_data_port));
    assert_eq!(before.0, 1);
    for round in 0..15 {
        world.set_tunnels("lab", &[to("web"), named(&format!("t{round}"), "web")]).await;
        world.tunnel("lab", &format!("t{round}"), TunnelState::Ready).await;
    }
    let after = (wired(status.client_proxy_control_port), wired(status.client_proxy_data_port));
    assert_eq!(after, before);
    world.end().await;
}

/// D9.
#[tokio::test]
async fn one_dead_server_delays_no_other_tunnel() {
    let world = World::start(Kind::Docker).await;
    let _web = world.server("web").await;
    // Takes connections and never answers, and one that nobody listens on at all.
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    world.service("mute", 1).await;
    world.service("mute-in", 1).await;
    world.endpoint("mute", Some(mute.local_addr().unwrap().port())).await;
    world.service("dead", 1).await;
    world.service("dead-in", 1).await;
    world.endpoint("dead", Some(1)).await;
    let mut tunnels = vec![to("mute"), to("dead")];
    tunnels.extend((0..20).map(|number| named(&format!("web-{number}"), "web")));
    world.create_proxy("lab", &tunnels).await;
    let ready = |now: &causeway_api::ContainerNetworkTunnelProxyStatus| {
        now.tunnel_statuses.iter().filter(|one| one.name.starts_with("web-")).count() == 20
            && now
                .tunnel_statuses
                .iter()
                .all(|one| !one.name.starts_with("web-") || one.state == Some(TunnelState::Ready))
    };
    let status = world.status("lab", "20 tunnels", ready).await;
    world.tunnel("lab", "dead", TunnelState::NotReady).await;
    let stuck = ask(port(&world.tunnel("lab", "mute", TunnelState::Ready).await));
    let others = async {
        for number in 0..20 {
            let one = tunnel(&status, &format!("web-{number}"));
            assert_eq!(ask(port(&one)).await.unwrap(), "web");
        }
    };
    tokio::select! {
        // It gives up after 10 s.
        _ = stuck => panic!("the others were held up by a server that never answers"),
        () = others => {}
    }
    world.end().await;
}

/// D10.
#[tokio::test]
async fn a_failure_outlives_the_operator_and_is_got_over() {
    let mut world = World::start(Kind::Docker).await;
    world.bed.fake.set_architecture("riscv64");
    world.create_proxy("lab", &[]).await;
    let failed =
        |now: &causeway_api::ContainerNetworkTunnelProxyStatus| now.state == Some(TunnelProxyState::Failed);
    world.status("lab", "Failed", failed).await;
    let message = world.condition("lab", ConditionType::ImageBuilt, "False", "ImageBuildFailed").await;
    assert!(message.contains("riscv64"), "{message}");
    world.bed.stop_operator().await;
    world.bed.start_operator();
    world.status("lab", "still Failed", failed).await;
    world.bed.fake.set_architecture(match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    });
    world.ready("lab").await;
    world.end().await;
}

/// D11.
#[tokio::test]
async fn containers_of_proxies_that_are_gone_are_removed_at_the_start() {
    for kind in BOTH {
        let mut world = World::without_operator(kind).await;
        world.bed.fake.add_network(NETWORK);
        let runtime = world.bed.fake.connect().await;
        for (name, instance) in [("left", INSTANCE), ("elsewhere", "elsewhere")] {
            let owner = labels::Owner {
                uid: "dead",
                kind: "ContainerNetworkTunnelProxy",
                name: "default/dead",
                instance,
            };
            let spec = ContainerSpec {
                name: name.to_owned(),
                image: "web:1".to_owned(),
                networks: vec![Attachment { network: NETWORK.to_owned(), aliases: Vec::new() }],
                labels: owner.labels(),
                ..ContainerSpec::default()
            };
            runtime.create(&spec).await.unwrap();
            runtime.start(name).await.unwrap();
        }
        world.bed.start_operator();
        eventually("what was left is gone", async || world.bed.fake.container("left").is_none()).await;
        assert!(world.bed.fake.container("elsewhere").is_some(), "another's things are not touched");
        world.end().await;
    }
}

/// D12.
#[tokio::test]
async fn every_proxy_hears_of_its_own_container() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let mut proxies = Vec::new();
        for name in ["a", "b", "c"] {
            proxies.push(world.create_proxy(name, &[to("web")]).await);
        }
        for proxy in &proxies {
            let name = proxy.name_any();
            let before = world.ready(&name).await;
            world.bed.fake.drop_container(&world.container(proxy).unwrap().name);
            let is_another = |now: &causeway_api::ContainerNetworkTunnelProxyStatus| {
                now.client_proxy_container_id.is_some()
                    && now.client_proxy_container_id != before.client_proxy_container_id
            };
            world.status(&name, "another container", is_another).await;
        }
        for proxy in &proxies {
            let status = world.ready(&proxy.name_any()).await;
            answers(port(&tunnel(&status, "web")), "web").await;
        }
        world.end().await;
    }
}

/// D13: certificates are renewed while the link runs, which the link's own tests show; here, keys are the object's own and
/// are made anew for whoever needs them.
#[tokio::test]
async fn a_container_that_is_started_again_has_a_fresh_certificate() {
    let world = World::start(Kind::Docker).await;
    let proxy = world.create_proxy("lab", &[]).await;
    world.ready("lab").await;
    let identities = || {
        let files = world.container(&proxy).map(|found| found.files).unwrap_or_default();
        files.into_iter().rfind(|file| file.path.ends_with("identity.pem")).map(|file| file.content)
    };
    let before = identities().unwrap();
    world.bed.fake.exit(&world.container(&proxy).unwrap().name, 1);
    eventually("another certificate", async || identities().is_some_and(|now| now != before)).await;
    world.ready("lab").await;
    world.end().await;
}

/// D14.
#[tokio::test]
async fn a_network_that_goes_while_the_proxy_runs_is_noticed() {
    for kind in BOTH {
        let world = World::without_network(kind).await;
        world.bed.fake.add_network(NETWORK);
        world.bed.create(NETWORK, json!({ "networkName": NETWORK, "mode": "existing" })).await;
        let _web = world.server("web").await;
        let proxy = world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        world.bed.fake.drop_network(NETWORK);
        world.condition("lab", ConditionType::Ready, "False", "NotFound").await;
        world.status("lab", "Pending", |now| now.state == Some(TunnelProxyState::Pending)).await;
        world.no_slices_of("web-in").await;
        eventually("its container is gone", async || world.container(&proxy).is_none()).await;
        world.bed.fake.add_network(NETWORK);
        let after = world.ready("lab").await;
        assert_eq!(port(&tunnel(&after, "web")), port(&tunnel(&before, "web")));
        answers(port(&tunnel(&after, "web")), "web").await;
        world.end().await;
    }
}

/// D14, for a network that is made again at once.
#[tokio::test]
async fn a_network_that_is_replaced_gets_a_container_of_its_own() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        world.bed.fake.drop_network(NETWORK);
        let is_another = |now: &causeway_api::ContainerNetworkTunnelProxyStatus| {
            now.client_proxy_container_id.is_some()
                && now.client_proxy_container_id != before.client_proxy_container_id
        };
        world.status("lab", "another container", is_another).await;
        let after = world.ready("lab").await;
        answers(port(&tunnel(&after, "web")), "web").await;
        let attached = world.bed.network(NETWORK).await.unwrap().containers;
        assert_eq!(attached.len(), 1);
        world.end().await;
    }
}

/// A Service that pods are behind cannot be a tunnel's.
#[tokio::test]
async fn a_client_service_with_a_selector_is_told_what_to_do() {
    let world = World::start(Kind::Docker).await;
    let (_web, _other) = (world.server("web").await, world.server("other").await);
    let services =
        kube::Api::<k8s_openapi::api::core::v1::Service>::namespaced(world.bed.client.clone(), "default");
    let patch = json!({ "spec": { "selector": { "app": "web" } } });
    services
        .patch("web-in", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&patch))
        .await
        .unwrap();
    world.create_proxy("lab", &[to("web"), to("other")]).await;
    let failed = world.tunnel("lab", "web", TunnelState::Failed).await;
    assert!(failed.error_message.unwrap().contains("remove the selector"));
    world.tunnel("lab", "other", TunnelState::Ready).await;
    let patch = json!({ "spec": { "selector": null } });
    services
        .patch("web-in", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&patch))
        .await
        .unwrap();
    world.ready("lab").await;
    world.end().await;
}
