//! Ways in which a proxy could say that it is ready and is not.

use causeway_api::{TunnelProxyState, conditions::ConditionType};
use causeway_containers::NetworkSpec;
use serde_json::json;

use super::world::{World, answers, port, to, tunnel};
use crate::testbed::BOTH;

#[tokio::test]
async fn a_container_that_is_paused_is_not_ready_until_it_is_resumed() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let proxy = world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        let container = world.container(&proxy).unwrap();
        world.bed.fake.pause(&container.name, true);
        let command = format!("{} unpause {}", kind.to_string().to_lowercase(), container.name);
        for condition in [ConditionType::LinkUp, ConditionType::TunnelsReady, ConditionType::Ready] {
            let message = world.condition("lab", condition, "False", "Disconnected").await;
            assert!(message.contains(&command), "{message}");
        }
        world.no_slices_of("web-in").await;
        let paused = world.proxies().get("lab").await.unwrap().status.unwrap();
        assert_ne!(paused.state, Some(TunnelProxyState::Running));
        assert!(tunnel(&paused, "web").error_message.unwrap().contains(&command));

        world.bed.fake.pause(&container.name, false);
        let after = world.ready("lab").await;
        assert_eq!(after.client_proxy_container_id, before.client_proxy_container_id);
        assert_eq!(world.slices_of("web-in").await.len(), 1);
        answers(port(&tunnel(&after, "web")), "web").await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_container_that_the_runtime_has_lost_is_made_again() {
    for kind in BOTH {
        let world = World::start(kind).await;
        let _web = world.server("web").await;
        let proxy = world.create_proxy("lab", &[to("web")]).await;
        let before = world.ready("lab").await;
        let name = world.container(&proxy).unwrap().name;
        world.bed.fake.lose_container(&name);
        world.bed.fake.exit(&name, 137);
        let is_another = |now: &causeway_api::ContainerNetworkTunnelProxyStatus| {
            now.client_proxy_container_id.is_some()
                && now.client_proxy_container_id != before.client_proxy_container_id
        };
        world.status("lab", "another container", is_another).await;
        let after = world.ready("lab").await;
        assert_eq!(after.client_proxy_control_port, before.client_proxy_control_port);
        answers(port(&tunnel(&after, "web")), "web").await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_network_without_a_way_out_is_said_to_be_one() {
    for kind in BOTH {
        let world = World::without_network(kind).await;
        let spec = NetworkSpec { name: "closed".into(), internal: true, ..NetworkSpec::default() };
        world.bed.fake.connect().await.create_network(&spec).await.unwrap();
        world.bed.create("closed", json!({ "networkName": "closed", "mode": "existing" })).await;
        let proxy = world.create_proxy_with("lab", &[], json!({ "containerNetworkName": "closed" })).await;
        let message = world.condition("lab", ConditionType::Ready, "False", "NotReady").await;
        assert!(message.contains("network closed is internal"), "{message}");
        world.status("lab", "Failed", |now| now.state == Some(TunnelProxyState::Failed)).await;
        assert!(world.container(&proxy).is_none(), "none is made that nobody could reach");
        world.end().await;
    }
}
