//! What others do to networks, and how the objects follow.

use causeway_api::{ContainerNetworkState, conditions::ConditionType};
use causeway_containers::{
    Attachment, Kind,
    fake::{Fault, Operation},
};
use causeway_testkit::eventually;
use serde_json::json;

use crate::testbed::{BOTH, Testbed};

#[tokio::test]
async fn a_network_that_someone_removed_is_made_again_and_told_of() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        for (name, mode) in [("short", "session"), ("long", "persistent")] {
            testbed.create(name, json!({ "networkName": name, "mode": mode })).await;
            let before = testbed.ready(name).await;
            testbed.fake.drop_network(name);
            let after =
                testbed.status(name, "another network", |now| now.id.is_some() && now.id != before.id).await;
            assert_eq!(after.state, Some(ContainerNetworkState::Running));
            let text = testbed.told(name, "NetworkReplaced").await;
            assert!(text.contains(name), "{text}");
        }
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn the_status_follows_the_containers_on_the_network() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue" })).await;
        testbed.ready("web").await;
        let first = testbed.run("first", "blue").await;
        testbed.status("web", "the first", |now| now.container_ids == [first.as_str()]).await;

        testbed.fake.add_network("other");
        let second = testbed.run("second", "other").await;
        let runtime = testbed.fake.connect().await;
        let attachment = Attachment { network: "blue".to_owned(), aliases: Vec::new() };
        runtime.attach("second", &attachment).await.unwrap();
        let both = [first.as_str(), second.as_str()];
        testbed.status("web", "both", |now| now.container_ids == both).await;
        runtime.detach("second", "blue").await.unwrap();
        testbed.status("web", "the first alone", |now| now.container_ids == [first.as_str()]).await;
        testbed.fake.exit("first", 0);
        testbed.status("web", "nobody", |now| now.container_ids.is_empty()).await;
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn a_network_with_containers_goes_when_they_have_gone() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue" })).await;
        testbed.ready("web").await;
        testbed.run("worker", "blue").await;
        testbed.delete("web").await;
        let message = testbed.condition("web", ConditionType::Deleting, "True", "CleanupFailed").await;
        assert!(message.contains("worker"), "{message}");
        testbed.told("web", "CleanupFailed").await;
        testbed.fake.drop_container("worker");
        testbed.gone("web").await;
        assert!(testbed.fake.networks().is_empty());
        testbed.stop_operator().await;
    }
}

/// Podman before version 5 says nothing of networks that are made and removed.
#[tokio::test]
async fn a_runtime_that_tells_nothing_is_looked_at() {
    let mut testbed = Testbed::without_operator(Kind::Podman).await;
    testbed.fake.fault(Operation::Events, Fault::Hang, usize::MAX);
    testbed.start_operator();
    testbed.create("web", json!({ "networkName": "blue" })).await;
    let before = testbed.ready("web").await;
    testbed.fake.drop_network("blue");
    eventually("the network is there again", async || !testbed.fake.networks().is_empty()).await;
    testbed.status("web", "another network", |now| now.id.is_some() && now.id != before.id).await;
    testbed.stop_operator().await;
}
