//! What each mode makes, keeps and removes.

use causeway_api::{ContainerNetworkState, conditions::ConditionType, names};
use causeway_containers::{Kind, fake::Operation, labels};
use kube::ResourceExt;
use serde_json::json;

use crate::testbed::{BOTH, INSTANCE, Testbed};

#[tokio::test]
async fn a_session_network_is_made_and_goes_with_its_object() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        let object = testbed.create("web", json!({ "networkName": "blue" })).await;
        let status = testbed.ready("web").await;
        let network = testbed.network("blue").await.unwrap();
        assert_eq!(status.id.as_deref(), Some(network.id.as_str()));
        assert_eq!(
            (status.network_name.as_deref(), status.driver.as_deref()),
            (Some("blue"), Some("bridge"))
        );
        assert_eq!((status.ipv6, status.message), (Some(false), None));
        assert_eq!((status.subnets.len(), status.gateways.len()), (1, 1));
        assert_eq!(status.observed_generation, object.metadata.generation);
        let label = |key| network.labels.get(key).map(String::as_str);
        assert_eq!(label(labels::OWNER), object.metadata.uid.as_deref());
        assert_eq!(
            (label(labels::KIND), label(labels::NAME)),
            (Some("ContainerNetwork"), Some("default/web"))
        );
        assert_eq!((label(labels::INSTANCE), label(labels::PERSISTENT)), (Some(INSTANCE), None));
        testbed.told("web", "Ready").await;
        let finalizers = testbed.api().get("web").await.unwrap().finalizers().to_vec();
        assert_eq!(finalizers, [names::FINALIZER_CONTAINER_NETWORK]);

        testbed.delete("web").await;
        testbed.gone("web").await;
        assert!(testbed.fake.networks().is_empty());
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn a_session_without_a_name_keeps_the_one_made_up_over_a_restart() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        let object = testbed.create("web", json!({})).await;
        let status = testbed.ready("web").await;
        let name = format!("causeway-web-{}", &object.uid().unwrap()[..8]);
        assert_eq!(status.network_name.as_deref(), Some(name.as_str()));

        testbed.stop_operator().await;
        testbed.start_operator();
        testbed.run("late", &name).await;
        let after = testbed.status("web", "it is followed again", |now| now.container_ids.len() == 1).await;
        assert_eq!((after.id, after.network_name), (status.id, Some(name)));
        assert_eq!(testbed.fake.count(Operation::CreateNetwork), 1, "adopted, not made again");
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn a_session_keeps_off_a_network_that_someone_else_made() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.fake.add_network("blue");
        testbed.create("web", json!({ "networkName": "blue" })).await;
        testbed.state("web", ContainerNetworkState::FailedToStart).await;
        let message = testbed.condition("web", ConditionType::Ready, "False", "Conflict").await;
        assert!(message.contains("mode existing or persistent"), "{message}");
        testbed.told("web", "Conflict").await;

        // The other one goes, and the name is free.
        testbed.fake.drop_network("blue");
        testbed.ready("web").await;

        // An object that never got its network leaves that of the other one alone.
        testbed.fake.add_network("green");
        testbed.create("other", json!({ "networkName": "green" })).await;
        testbed.state("other", ContainerNetworkState::FailedToStart).await;
        testbed.delete("other").await;
        testbed.gone("other").await;
        assert_eq!(testbed.fake.networks(), ["blue", "green"]);
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn a_persistent_network_is_made_if_missing_and_kept() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue", "mode": "persistent" })).await;
        let first = testbed.ready("web").await;
        let made = testbed.network("blue").await.unwrap();
        assert_eq!(made.labels.get(labels::PERSISTENT).map(String::as_str), Some("true"));
        testbed.delete("web").await;
        testbed.gone("web").await;

        testbed.create("again", json!({ "networkName": "blue", "persistent": true })).await;
        let second = testbed.ready("again").await;
        assert_eq!(second.id, first.id, "adopted");
        testbed.fake.add_network("foreign");
        testbed.create("foreign", json!({ "networkName": "foreign", "mode": "persistent" })).await;
        testbed.ready("foreign").await;
        testbed.stop_operator().await;

        // A start with nothing to do but to sweep leaves it alone, too.
        testbed.start_operator();
        testbed.delete("again").await;
        testbed.delete("foreign").await;
        testbed.gone("again").await;
        testbed.gone("foreign").await;
        assert_eq!(testbed.fake.networks(), ["blue", "foreign"]);
        assert_eq!(testbed.fake.count(Operation::RemoveNetwork), 0);
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn an_existing_network_is_waited_for_and_never_touched() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue", "mode": "existing" })).await;
        testbed.state("web", ContainerNetworkState::NotFound).await;
        let message = testbed.condition("web", ConditionType::Ready, "False", "NotFound").await;
        assert!(message.contains("blue"), "{message}");

        testbed.fake.add_network("blue");
        testbed.ready("web").await;
        testbed.fake.drop_network("blue");
        let status = testbed.state("web", ContainerNetworkState::NotFound).await;
        assert_eq!((status.id, status.subnets.len()), (None, 0));

        testbed.fake.add_network("blue");
        testbed.ready("web").await;
        testbed.delete("web").await;
        testbed.gone("web").await;
        assert_eq!(testbed.fake.networks(), ["blue"]);
        assert_eq!(testbed.fake.count(Operation::CreateNetwork), 0);
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn clean_up_removes_a_network_once_nobody_uses_it() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("kept", json!({ "networkName": "blue", "mode": "persistent" })).await;
        testbed.ready("kept").await;
        testbed.delete("kept").await;
        testbed.gone("kept").await;
        testbed.run("worker", "blue").await;
        testbed.create("web", json!({ "networkName": "blue", "mode": "cleanup" })).await;
        let message = testbed.condition("web", ConditionType::Ready, "False", "CleanupFailed").await;
        assert!(message.contains("worker"), "{message}");
        testbed.fake.drop_container("worker");
        testbed.state("web", ContainerNetworkState::Removed).await;
        testbed.condition("web", ConditionType::Ready, "True", "ReconciliationSucceeded").await;
        assert!(testbed.fake.networks().is_empty());

        // What somebody else makes under that name is somebody else's.
        testbed.fake.add_network("blue");
        let message = testbed.condition("web", ConditionType::Ready, "False", "Conflict").await;
        assert!(message.contains("was not made by this control plane"), "{message}");
        assert_eq!(testbed.fake.networks(), ["blue"]);
        testbed.create("missing", json!({ "networkName": "nowhere", "mode": "cleanup" })).await;
        testbed.state("missing", ContainerNetworkState::Removed).await;
        testbed.delete("web").await;
        testbed.gone("web").await;
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn two_objects_do_not_fight_over_one_name() {
    let mut testbed = Testbed::start(Kind::Docker).await;
    testbed.create("first", json!({ "networkName": "blue" })).await;
    let first = testbed.ready("first").await;
    testbed.create("second", json!({ "networkName": "blue" })).await;
    let message = testbed.condition("second", ConditionType::Ready, "False", "Conflict").await;
    assert!(message.contains("default/first"), "{message}");
    testbed.create("broom", json!({ "networkName": "blue", "mode": "cleanup" })).await;
    let message = testbed.condition("broom", ConditionType::Ready, "False", "Conflict").await;
    assert!(message.contains("default/first"), "{message}");
    assert_eq!(testbed.ready("first").await.id, first.id);

    testbed.delete("broom").await;
    testbed.gone("broom").await;
    testbed.delete("first").await;
    testbed.gone("first").await;
    let second = testbed.ready("second").await;
    assert_ne!(second.id, first.id);
    testbed.stop_operator().await;
}

#[tokio::test]
async fn ipv6_is_had_where_it_is_asked_for_or_said_to_be_missing() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        testbed.create("web", json!({ "networkName": "blue", "ipv6": true })).await;
        let status = testbed.ready("web").await;
        assert_eq!((status.ipv6, status.subnets.len()), (Some(true), 2));
        testbed.fake.add_network("old");
        testbed.create("old", json!({ "networkName": "old", "mode": "existing", "ipv6": true })).await;
        let message = testbed.condition("old", ConditionType::Ready, "False", "Conflict").await;
        assert!(message.contains("spec.ipv6"), "{message}");
        testbed.state("old", ContainerNetworkState::Running).await;
        testbed.stop_operator().await;
    }
}

#[tokio::test]
async fn an_object_of_the_same_name_begins_afresh() {
    for kind in BOTH {
        let mut testbed = Testbed::start(kind).await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            testbed.create("web", json!({ "networkName": "blue" })).await;
            let status = testbed.ready("web").await;
            assert_eq!(status.id.clone(), testbed.network("blue").await.map(|network| network.id));
            ids.push(status.id.unwrap());
            testbed.delete("web").await;
            testbed.gone("web").await;
        }
        ids.dedup();
        assert_eq!(ids.len(), 3);
        testbed.stop_operator().await;
    }
}
