//! What an operator that died left behind.

use causeway_containers::labels;
use causeway_testkit::eventually;
use serde_json::json;

use crate::testbed::{BOTH, INSTANCE, Testbed};

/// The labels of a network of an object that is gone.
fn of_the_dead<'a>(instance: &'a str, kind: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        (labels::OWNER, "dead"),
        (labels::KIND, kind),
        (labels::NAME, "default/dead"),
        (labels::INSTANCE, instance),
    ]
}

#[tokio::test]
async fn networks_of_objects_that_are_gone_are_removed_at_the_start() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue" })).await;
        let before = testbed.ready("web").await;
        testbed.stop_operator().await;

        testbed.make_network("left", &of_the_dead(INSTANCE, "ContainerNetwork")).await;
        testbed.make_network("busy", &of_the_dead(INSTANCE, "ContainerNetwork")).await;
        testbed.run("worker", "busy").await;
        let mut kept = of_the_dead(INSTANCE, "ContainerNetwork");
        kept.push((labels::PERSISTENT, "true"));
        testbed.make_network("kept", &kept).await;
        testbed.make_network("elsewhere", &of_the_dead("elsewhere", "ContainerNetwork")).await;
        testbed.make_network("pods", &of_the_dead(INSTANCE, "Pod")).await;
        testbed.fake.add_network("foreign");

        testbed.start_operator();
        let gone = async |name: &str| {
            eventually(&format!("{name} is gone"), async || {
                !testbed.fake.networks().contains(&name.to_owned())
            })
            .await;
        };
        gone("left").await;
        // One that was in use goes when it is not any more.
        testbed.fake.drop_container("worker");
        gone("busy").await;
        assert_eq!(testbed.fake.networks(), ["blue", "elsewhere", "foreign", "kept", "pods"]);
        assert_eq!(testbed.ready("web").await.id, before.id, "the living keep theirs");
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn a_network_left_by_the_dead_is_no_hindrance() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("first", json!({})).await;
        testbed.ready("first").await;
        // After the start-up sweep, and so still there.
        let left = testbed.make_network("blue", &of_the_dead(INSTANCE, "ContainerNetwork")).await;
        testbed.create("web", json!({ "networkName": "blue" })).await;
        let status = testbed.ready("web").await;
        assert_ne!(status.id, Some(left.id));
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn what_happened_while_no_operator_ran_is_seen_at_the_start() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("gone", json!({ "networkName": "blue" })).await;
        testbed.create("deleted", json!({ "networkName": "green" })).await;
        testbed.ready("gone").await;
        testbed.ready("deleted").await;
        testbed.stop_operator().await;
        testbed.fake.drop_network("blue");
        testbed.delete("deleted").await;
        testbed.start_operator();
        testbed.gone("deleted").await;
        eventually("blue is made again", async || testbed.fake.networks() == ["blue"]).await;
        testbed.ready("gone").await;
        testbed.stop_operator().await;
    }
}
