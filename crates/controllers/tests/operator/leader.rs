//! Two operators, of which one acts.

use causeway_api::{DHCPServer, conditions::ConditionType};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use crate::cluster::{Cluster, until};

#[tokio::test]
async fn the_second_operator_acts_only_when_the_first_has_stopped() {
    let cluster = Cluster::start().await;
    let holder = || async {
        let lease = cluster.api::<Lease>().get_opt("causeway-operator").await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity)
    };
    let first = cluster.elected("first");
    until("the first leads", || async { holder().await.as_deref() == Some("first") }).await;
    let second = cluster.elected("second");

    cluster.create_infra("lab", &json!({ "dhcp": {} })).await;
    cluster.condition("lab", ConditionType::DHCPReady, "False", "Progressing").await;
    assert_eq!(holder().await.as_deref(), Some("first"));

    first.stop().await;
    until("the second leads", || async { holder().await.as_deref() == Some("second") }).await;
    cluster.create_infra("lab2", &json!({ "dhcp": {} })).await;
    until("the second acts", || async { cluster.exists::<DHCPServer>("lab2-dhcp").await }).await;
    second.stop().await;
    assert_eq!(holder().await, None, "the lease was released");
}
