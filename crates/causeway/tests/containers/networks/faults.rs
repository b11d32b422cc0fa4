//! Runtimes that are away, die, come back or say no.

use causeway_api::{ContainerNetworkState, conditions::ConditionType};
use causeway_containers::{
    Kind,
    fake::{Fault, Operation},
};
use serde_json::json;

use crate::testbed::{BOTH, Testbed};

#[tokio::test]
async fn a_runtime_that_is_away_at_the_start_is_waited_for() {
    for kind in BOTH {
        let mut testbed = Testbed::without_operator(kind).await;
        testbed.fake.die();
        testbed.start_operator();
        testbed.create("web", json!({ "networkName": "blue" })).await;
        let unavailable = ("False", "RuntimeUnavailable");
        let message =
            testbed.condition("web", ConditionType::RuntimeAvailable, unavailable.0, unavailable.1).await;
        assert!(message.contains(&testbed.fake.socket().display().to_string()), "{message}");
        assert!(message.contains("--container-runtime"), "{message}");
        let status = testbed.state("web", ContainerNetworkState::Pending).await;
        assert_eq!(status.message.as_deref(), Some(message.as_str()));
        testbed.told("web", "RuntimeUnavailable").await;

        testbed.fake.restart();
        testbed.ready("web").await;
        testbed.condition("web", ConditionType::RuntimeAvailable, "True", "Ready").await;
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn a_runtime_that_dies_is_told_of_and_its_return_heals_all() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue" })).await;
        let before = testbed.ready("web").await;
        for _ in 0..2 {
            testbed.fake.die();
            testbed.condition("web", ConditionType::RuntimeAvailable, "False", "RuntimeUnavailable").await;
            let away = testbed.state("web", ContainerNetworkState::Running).await;
            assert_eq!(away.id, before.id, "what was seen last stays");
            testbed.fake.restart();
            let after = testbed.ready("web").await;
            assert_eq!(after.id, before.id);
        }
        assert_eq!(testbed.fake.count(Operation::CreateNetwork), 1);

        // What happened while it was away is seen when it is back.
        testbed.fake.die();
        testbed.condition("web", ConditionType::Ready, "False", "RuntimeUnavailable").await;
        testbed.fake.drop_network("blue");
        testbed.fake.restart();
        testbed.ready("web").await;
        assert_eq!(testbed.fake.networks(), ["blue"]);
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn an_object_that_goes_waits_for_the_runtime_that_has_its_network() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue" })).await;
        testbed.create("kept", json!({ "networkName": "kept", "mode": "persistent" })).await;
        testbed.ready("web").await;
        testbed.ready("kept").await;
        testbed.fake.die();
        testbed.condition("web", ConditionType::RuntimeAvailable, "False", "RuntimeUnavailable").await;
        testbed.delete("web").await;
        testbed.condition("web", ConditionType::Deleting, "True", "RuntimeUnavailable").await;
        // What has nothing to remove waits for nobody.
        testbed.delete("kept").await;
        testbed.gone("kept").await;
        testbed.fake.restart();
        testbed.gone("web").await;
        assert_eq!(testbed.fake.networks(), ["kept"]);
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn without_any_runtime_objects_say_so_and_can_go() {
    let mut testbed = Testbed::without_operator(Kind::Docker).await;
    testbed.start_operator_with(None);
    testbed.create("web", json!({})).await;
    let message = testbed.condition("web", ConditionType::Ready, "False", "RuntimeUnavailable").await;
    assert!(message.contains("--container-runtime none"), "{message}");
    testbed.delete("web").await;
    testbed.gone("web").await;
    testbed.stop_operator().await;
}

#[tokio::test]
async fn a_runtime_that_says_no_is_quoted_and_asked_again() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        let full = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network";
        testbed.fake.fault(Operation::CreateNetwork, Fault::error(400, full), 2);
        testbed.create("web", json!({ "networkName": "blue" })).await;
        testbed.state("web", ContainerNetworkState::FailedToStart).await;
        let text = testbed.told("web", "ReconciliationFailed").await;
        assert!(text.contains(full) && text.contains("nobody uses"), "{text}");
        testbed.ready("web").await;

        testbed.fake.fault(Operation::RemoveNetwork, Fault::error(500, "something broke"), 2);
        testbed.delete("web").await;
        testbed.condition("web", ConditionType::Deleting, "True", "ReconciliationFailed").await;
        testbed.gone("web").await;
        assert!(testbed.fake.networks().is_empty());
        testbed.stop_operator().await;
    }
}
