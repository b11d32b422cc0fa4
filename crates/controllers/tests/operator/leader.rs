//! Two operators, of which one acts.

use causeway_api::{DHCPServer, DNSServer, conditions::ConditionType};
use causeway_controllers::framework::health::Phase;
use causeway_testkit::eventually;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use crate::cluster::Cluster;

#[tokio::test]
async fn the_second_operator_acts_only_when_the_first_has_stopped() {
    let cluster = Cluster::start().await;
    let holder = || async {
        let lease = cluster.api::<Lease>().get_opt("causeway-operator").await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity)
    };
    let first = cluster.elected("first");
    eventually("the first leads", || async { holder().await.as_deref() == Some("first") }).await;
    let second = cluster.elected("second");

    cluster.create_infra("lab", &json!({ "dhcp": {} })).await;
    cluster.condition("lab", ConditionType::DHCPReady, "False", "NotReady").await;
    assert_eq!(holder().await.as_deref(), Some("first"));

    first.stop().await;
    eventually("the second leads", || async { holder().await.as_deref() == Some("second") }).await;
    cluster.create_infra("lab2", &json!({ "dns": { "baseDomain": "example.com" } })).await;
    eventually("the second acts", || async { cluster.exists::<DNSServer>("lab2-dns").await }).await;
    second.stop().await;
    assert_eq!(holder().await, None, "the lease was released");
}

#[tokio::test]
async fn an_operator_whose_lease_was_taken_stops_and_comes_back_when_it_is_free() {
    let cluster = Cluster::start().await;
    let operator = cluster.elected("first");
    eventually("it leads with filled caches", || async {
        operator.health.phase() == Phase::Leading && operator.health.missing().is_empty()
    })
    .await;

    // The holder's promise is long, so only a release can end it within this test.
    let taken = json!({ "spec": { "holderIdentity": "thief", "leaseDurationSeconds": 3600 } });
    cluster.merge::<Lease>("causeway-operator", &taken).await;
    eventually("it stands by", || async { operator.health.phase() == Phase::StandingBy }).await;
    let before = operator.reconciles();
    cluster.create_infra("lab", &json!({ "dhcp": {} })).await;

    let free = json!({ "spec": { "holderIdentity": null, "leaseDurationSeconds": 1 } });
    assert_eq!(operator.reconciles(), before, "nothing is reconciled while another leads");
    cluster.merge::<Lease>("causeway-operator", &free).await;
    eventually("it acts again", || async { cluster.exists::<DHCPServer>("lab-dhcp").await }).await;
    operator.stop().await;
}
