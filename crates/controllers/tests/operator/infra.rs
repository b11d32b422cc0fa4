//! What an Infra leads to.

use causeway_api::{
    AddressClaim, DHCPServer, DNSServer, Infra, ProxyServer,
    conditions::{self, ConditionType},
};
use causeway_testkit::eventually;
use k8s_openapi::api::events::v1::Event;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn all() -> Value {
    json!({ "dhcp": {}, "dns": { "baseDomain": "example.com" }, "proxy": {} })
}

/// An Infra `lab` whose children exist and were waited for.
async fn lab(cluster: &Cluster) -> Infra {
    cluster.create_infra("lab", &all()).await;
    cluster.condition("lab", ConditionType::Ready, "False", "ComponentsNotReady").await
}

#[tokio::test]
async fn an_infra_becomes_three_owned_children_with_chosen_addresses() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    let infra = lab(&cluster).await;

    let dhcp = cluster.api::<DHCPServer>().get("lab-dhcp").await.unwrap();
    let dns = cluster.api::<DNSServer>().get("lab-dns").await.unwrap();
    let proxy = cluster.api::<ProxyServer>().get("lab-proxy").await.unwrap();
    for owners in [dhcp.owner_references(), dns.owner_references(), proxy.owner_references()] {
        assert_eq!(
            (owners[0].uid.as_str(), owners[0].controller),
            (infra.uid().unwrap().as_str(), Some(true))
        );
    }
    assert_eq!(dhcp.spec.network_config.server_ip, "192.168.100.2");
    assert_eq!(dhcp.spec.network_config.dns_servers, ["192.168.100.3"]);
    assert_eq!(dns.spec.network_config.proxy_ip.as_deref(), Some("192.168.100.4"));
    assert_eq!(
        (proxy.spec.backends.len(), proxy.spec.backends[0].target_namespace.as_str()),
        (6, "default-lab")
    );
    let addresses = infra.status.unwrap().addresses.unwrap();
    assert_eq!(
        (addresses.dns.as_deref(), addresses.proxy.as_deref()),
        (Some("192.168.100.3"), Some("192.168.100.4"))
    );
    operator.stop().await;
}

#[tokio::test]
async fn an_infra_keeps_its_addresses_whoever_asks_for_them() {
    let cluster = Cluster::start().await;
    let operator = cluster.whole();
    cluster.create_infra("lab", &all()).await;
    eventually("its addresses are claimed", || async {
        let claims = cluster.api::<AddressClaim>().list(&ListParams::default()).await.unwrap();
        claims.items.len() == 3
    })
    .await;
    let thief: DNSServer = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DNSServer", "metadata": { "name": "thief" },
        "spec": {
            "networkConfig": { "serverIP": "192.168.100.3/24", "networkAttachmentName": "vlan100" },
            "hostedClusterDomain": "lab.example.com",
        },
    }))
    .unwrap();
    cluster.api::<DNSServer>().create(&PostParams::default(), &thief).await.unwrap();
    eventually("the other is told whose it is", || async {
        let status = cluster.api::<DNSServer>().get("thief").await.unwrap().status?;
        let ready = conditions::find(&status.conditions, ConditionType::Ready)?;
        ready.message.contains("belongs to DNSServer default/lab-dns").then_some(())
    })
    .await;
    let edit = json!({"spec": {"infraComponents": {"dns": {"extraEntries": [
        {"hostname": "more.lab.example.com", "ip": "192.168.100.77"},
    ]}}}});
    cluster.merge::<Infra>("lab", &edit).await;
    let dns = eventually("the edit is there", || async {
        let dns = cluster.api::<DNSServer>().get("lab-dns").await.unwrap();
        dns.spec.static_entries.iter().any(|entry| entry.hostname.starts_with("more")).then_some(dns)
    })
    .await;
    assert_eq!(dns.spec.network_config.server_ip, "192.168.100.3");
    operator.stop().await;
}

#[tokio::test]
async fn ready_follows_the_children_and_is_told_in_an_event() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    lab(&cluster).await;
    cluster.report_all("lab", "True").await;
    let infra = cluster.condition("lab", ConditionType::Ready, "True", "ReconciliationSucceeded").await;
    let flags = infra.status.unwrap().component_status.unwrap();
    assert!(flags.dhcp_ready && flags.dns_ready && flags.proxy_ready);
    eventually("an Event about Ready", || async {
        let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
        events.iter().any(|event| event.reason.as_deref() == Some("Ready"))
    })
    .await;

    cluster.report::<DNSServer>("lab-dns", "False").await;
    let infra = cluster.condition("lab", ConditionType::Ready, "False", "ComponentsNotReady").await;
    let ready = conditions::find(&infra.status.as_ref().unwrap().conditions, ConditionType::Ready).unwrap();
    assert!(
        ready.message.contains("lab-dns") && ready.message.contains("says the test"),
        "{}",
        ready.message
    );
    operator.stop().await;
}

#[tokio::test]
async fn a_disabled_component_is_removed_and_the_others_stay() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    lab(&cluster).await;
    cluster.report_all("lab", "True").await;
    cluster.condition("lab", ConditionType::DHCPReady, "True", "Ready").await;
    let proxy = cluster.api::<ProxyServer>().get("lab-proxy").await.unwrap();

    cluster.merge::<Infra>("lab", &json!({"spec": {"infraComponents": {"dhcp": {"enabled": false}}}})).await;
    eventually("lab-dhcp is gone", || async { !cluster.exists::<DHCPServer>("lab-dhcp").await }).await;
    let infra = cluster.condition("lab", ConditionType::Ready, "True", "ReconciliationSucceeded").await;
    let status = infra.status.unwrap();
    assert!(!status.component_status.unwrap().dhcp_ready);
    assert!(conditions::find(&status.conditions, ConditionType::DHCPReady).is_none());
    let after = cluster.api::<ProxyServer>().get("lab-proxy").await.unwrap();
    assert_eq!(after.resource_version(), proxy.resource_version(), "the proxy was not touched");

    cluster.merge::<Infra>("lab", &json!({"spec": {"infraComponents": {"dhcp": {"enabled": true}}}})).await;
    let dhcp = eventually("lab-dhcp is back", || async {
        cluster.api::<DHCPServer>().get_opt("lab-dhcp").await.unwrap()
    })
    .await;
    assert_eq!(dhcp.spec.network_config.server_ip, "192.168.100.2", "it has its address again");
    operator.stop().await;
}

#[tokio::test]
async fn a_hand_edit_goes_back_and_foreign_fields_stay() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    lab(&cluster).await;
    let edit = json!({
        "metadata": { "annotations": { "team": "network" } },
        "spec": { "hostedClusterDomain": "evil.example.com" },
    });
    cluster.merge::<DNSServer>("lab-dns", &edit).await;
    let dns = eventually("the domain is restored", || async {
        let dns = cluster.api::<DNSServer>().get("lab-dns").await.unwrap();
        (dns.spec.hosted_cluster_domain == "lab.example.com").then_some(dns)
    })
    .await;
    assert_eq!(dns.annotations().get("team").map(String::as_str), Some("network"));

    cluster.api::<ProxyServer>().delete("lab-proxy", &DeleteParams::default()).await.unwrap();
    eventually("the proxy is made again", || async { cluster.exists::<ProxyServer>("lab-proxy").await })
        .await;
    operator.stop().await;
}

#[tokio::test]
async fn a_taken_name_is_a_conflict_that_blocks_nothing_else() {
    let cluster = Cluster::start().await;
    let foreign: DNSServer = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1",
        "kind": "DNSServer",
        "metadata": { "name": "lab-dns" },
        "spec": { "networkConfig": { "serverIP": "10.0.0.3" }, "hostedClusterDomain": "mine.example.com" },
    }))
    .unwrap();
    let foreign = cluster.api::<DNSServer>().create(&PostParams::default(), &foreign).await.unwrap();
    let operator = cluster.operator("a");
    cluster.create_infra("lab", &all()).await;
    let infra = cluster.condition("lab", ConditionType::DNSReady, "False", "Conflict").await;
    let ready = conditions::find(&infra.status.as_ref().unwrap().conditions, ConditionType::Ready).unwrap();
    assert!(ready.message.contains("DNSServer default/lab-dns already exists"), "{}", ready.message);
    assert!(
        cluster.exists::<DHCPServer>("lab-dhcp").await && cluster.exists::<ProxyServer>("lab-proxy").await
    );
    let after = cluster.api::<DNSServer>().get("lab-dns").await.unwrap();
    assert_eq!(after.resource_version(), foreign.resource_version(), "the other's object was not touched");

    cluster.api::<DNSServer>().delete("lab-dns", &DeleteParams::default()).await.unwrap();
    cluster.condition("lab", ConditionType::DNSReady, "False", "Progressing").await;
    operator.stop().await;
}

#[tokio::test]
async fn a_refused_child_does_not_block_the_others() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    // An Infra has room for 32 ports, and with the two standard ones these are more than a ProxyServer takes.
    let ports: Vec<_> = (1000..1032).map(|port| json!({ "port": port })).collect();
    let components = json!({
        "dhcp": {},
        "dns": { "baseDomain": "example.com" },
        "proxy": { "ports": ports },
    });
    cluster.create_infra("lab", &components).await;
    let infra = cluster.condition("lab", ConditionType::ProxyReady, "False", "ComponentFailed").await;
    let ready =
        conditions::find(&infra.status.as_ref().unwrap().conditions, ConditionType::ProxyReady).unwrap();
    assert!(ready.message.contains("spec.ports"), "{}", ready.message);
    assert!(cluster.exists::<DHCPServer>("lab-dhcp").await && cluster.exists::<DNSServer>("lab-dns").await);
    operator.stop().await;
}

#[tokio::test]
async fn a_bad_spec_is_told_and_disturbs_nothing() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    lab(&cluster).await;
    let before = cluster.api::<ProxyServer>().get("lab-proxy").await.unwrap();
    let duplicate = json!({"spec": {"infraComponents": {"proxy": {"backends": [
        { "name": "ignition-server", "hostname": "oauth.lab.example.com" },
    ]}}}});
    cluster.merge::<Infra>("lab", &duplicate).await;
    let infra = cluster.condition("lab", ConditionType::Ready, "False", "DuplicateHostname").await;
    let ready = conditions::find(&infra.status.as_ref().unwrap().conditions, ConditionType::Ready).unwrap();
    assert!(
        ready.message.starts_with("spec.infraComponents.proxy.backends[0].hostname: "),
        "{}",
        ready.message
    );
    let after = cluster.api::<ProxyServer>().get("lab-proxy").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());

    cluster.merge::<Infra>("lab", &json!({"spec": {"infraComponents": {"proxy": {"backends": null}}}})).await;
    cluster.condition("lab", ConditionType::Ready, "False", "ComponentsNotReady").await;
    operator.stop().await;
}

#[tokio::test]
async fn children_go_with_their_infra() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    lab(&cluster).await;
    cluster.api::<Infra>().delete("lab", &DeleteParams::background()).await.unwrap();
    eventually("every child is gone", || async {
        !cluster.exists::<DHCPServer>("lab-dhcp").await
            && !cluster.exists::<DNSServer>("lab-dns").await
            && !cluster.exists::<ProxyServer>("lab-proxy").await
    })
    .await;
    operator.stop().await;
}

#[tokio::test]
async fn an_idle_operator_writes_nothing_also_after_a_restart() {
    let cluster = Cluster::start().await;
    let operator = cluster.operator("a");
    lab(&cluster).await;
    cluster.report_all("lab", "True").await;
    cluster.condition("lab", ConditionType::Ready, "True", "ReconciliationSucceeded").await;
    let recorded =
        || async { cluster.api::<Event>().list(&ListParams::default()).await.unwrap().items.len() };
    eventually("the last Event is written", || async {
        let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
        events.iter().any(|event| event.reason.as_deref() == Some("Ready"))
    })
    .await;
    // The proxy's own controller has its word too, and it differs from what the test reported.
    eventually("the operator has nothing left to do", || async {
        let before = cluster.revision().await;
        operator.reconciled(5).await;
        cluster.revision().await == before
    })
    .await;
    let events = recorded().await;
    let revision = cluster.revision().await;
    operator.reconciled(5).await;
    assert_eq!(cluster.revision().await, revision);
    operator.stop().await;

    let next = cluster.operator("b");
    next.reconciled(5).await;
    assert_eq!((cluster.revision().await, recorded().await), (revision, events));
    next.stop().await;
}
