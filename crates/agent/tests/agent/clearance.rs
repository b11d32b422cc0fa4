//! A DHCP server's agent: what of a network it takes into use, and when.

use std::net::Ipv4Addr;
use std::path::Path;

use causeway_agent::{Dhcp, ServerPod};
use causeway_api::{DHCPServer, names};
use causeway_ir::dhcp::{DhcpPlan, Replica};
use causeway_testkit::{Cluster, eventually};
use causeway_translate::dhcp::validate;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::paper::Running;

/// The agent of the server at this address.
async fn start(cluster: &Cluster, address: u8, state: &Path) -> Running<DhcpPlan> {
    let pod = format!("lab-{address}");
    let followed = Dhcp(ServerPod {
        name: "lab".into(),
        pod: pod.clone(),
        pod_ip: Ipv4Addr::LOCALHOST.into(),
        server_ip: [127, 0, 0, address].into(),
    });
    let report = ("lab", names::server_report_manager("dhcp", &pod));
    Running::start(cluster.client.clone(), followed, report, state).await
}

fn server(last: u8, mtu: u16) -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "metadata": {"name": "lab"},
        "spec": {
            "networkConfig": {"cidr": "127.0.0.0/24", "gateway": "127.0.0.1", "serverIP": "127.0.0.2", "mtu": mtu},
            "leaseConfig": {"rangeStart": "127.0.0.50", "rangeEnd": format!("127.0.0.{last}")},
            "clients": "VirtualMachines",
        },
    })
}

async fn apply(cluster: &Cluster, server: &Value) {
    let params = PatchParams::apply("test").force();
    cluster.api::<DHCPServer>().patch("lab", &params, &Patch::Apply(server)).await.unwrap();
}

/// What the operator says of this object's share, with so many clients and these addresses of others.
async fn tell(cluster: &Cluster, server: Option<&Value>, cards: u8, taken: &str) {
    let share = server.map(|server| {
        let server: DHCPServer = serde_json::from_value(server.clone()).unwrap();
        validate(&server).unwrap().share()
    });
    let cards: Vec<_> = (0..cards).map(|card| format!("02:00:00:00:00:{card:02x} vm\n")).collect();
    let cards = cards.concat();
    let mut data = json!({"clients": cards, "taken": taken});
    data.as_object_mut().unwrap().extend(share.map(|share| ("share".to_owned(), share.into())));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lab-dhcp-config"}, "data": data});
    let params = PatchParams::apply("test").force();
    cluster.api::<ConfigMap>().patch("lab-dhcp-config", &params, &Patch::Apply(map)).await.unwrap();
}

#[tokio::test]
async fn what_others_may_have_is_leased_only_when_the_operator_has_looked() {
    let cluster = Cluster::start().await;
    let state = tempfile::tempdir().unwrap();
    let (first, longer) = (server(99, 1500), server(120, 9000));
    apply(&cluster, &first).await;
    tell(&cluster, Some(&first), 1, "").await;
    let agent = start(&cluster, 2, state.path()).await;
    let ends_at = |plan: &DhcpPlan, last: u8| plan.pool.last == Ipv4Addr::new(127, 0, 0, last);
    agent.plan("of the first spec", |plan| ends_at(plan, 99)).await;

    // What takes nothing more of the network needs no word.
    apply(&cluster, &server(99, 9000)).await;
    agent.plan("of the edit", |plan| plan.mtu == Some(9000)).await;

    // A longer range does; what else is told is followed meanwhile, and nothing is said of the edit.
    apply(&cluster, &longer).await;
    tell(&cluster, Some(&first), 2, "127.0.0.60").await;
    let plan = agent.plan("with another client", |plan| plan.clients.iter().flatten().count() == 2).await;
    assert!(ends_at(&plan, 99), "{plan:?}");
    assert!(plan.pool.except.contains(&"127.0.0.60/32".parse().unwrap()), "{plan:?}");
    let seen = || async {
        let status = cluster.api::<DHCPServer>().get("lab").await.unwrap().status?;
        let report = status.replicas.into_iter().next()?;
        Some((report.observed_generation?, report.refused))
    };
    eventually("the edit before is reported", || async { seen().await == Some((2, None)) }).await;
    tell(&cluster, Some(&longer), 2, "").await;
    agent.plan("of the longer range", |plan| ends_at(plan, 120)).await;
    eventually("the longer range is reported", || async { seen().await == Some((3, None)) }).await;

    // What was let run once runs again, also when the word is lost; not so another object's.
    drop(agent);
    tell(&cluster, None, 3, "").await;
    let agent = start(&cluster, 2, state.path()).await;
    let plan = agent.plan("after a restart", |plan| plan.clients.iter().flatten().count() == 3).await;
    assert!(ends_at(&plan, 120), "{plan:?}");
    let fresh = tempfile::tempdir().unwrap();
    let stranger = start(&cluster, 2, fresh.path()).await;
    tell(&cluster, Some(&longer), 4, "").await;
    let plan = stranger.plan("of a pod without a past", |_| true).await;
    assert_eq!(plan.clients.iter().flatten().count(), 4, "it waited for the word");
}

/// The same with so many servers, which share the range.
fn shared(replicas: u8) -> Value {
    let mut server = server(99, 1500);
    server["spec"]["replicas"] = replicas.into();
    server["spec"]["networkConfig"]["additionalServerIPs"] = json!(["127.0.0.3"]);
    server
}

#[tokio::test]
async fn what_another_server_gave_is_nobodys_until_it_is_over() {
    let cluster = Cluster::start().await;
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (two, one) = (shared(2), shared(1));
    apply(&cluster, &two).await;
    tell(&cluster, Some(&two), 1, "").await;
    let first = start(&cluster, 2, states[0].path()).await;
    let second = start(&cluster, 3, states[1].path()).await;
    let part = |index, listens| Some(Replica { index, of: 2, listens });
    first.plan("of the first", |plan| plan.replica == part(0, false)).await;
    second.plan("of the second", |plan| plan.replica == part(1, false)).await;

    // One of them is no longer asked for. The operator has not looked yet, so all is as before.
    apply(&cluster, &one).await;
    tell(&cluster, Some(&two), 2, "").await;
    let plan = first.plan("with another client", |plan| plan.clients.iter().flatten().count() == 2).await;
    assert_eq!(plan.replica, part(0, false));
    // With its word, the first goes on with its part, and the second, as long as it runs, with its own.
    let before = json!({"data": {"before": "2 for 3600"}});
    let maps = cluster.api::<ConfigMap>();
    maps.patch("lab-dhcp-config", &PatchParams::default(), &Patch::Merge(&before)).await.unwrap();
    tell(&cluster, Some(&one), 3, "").await;
    for (agent, index) in [(&first, 0), (&second, 1)] {
        let plan = agent.plan("with a third client", |plan| plan.clients.iter().flatten().count() == 3).await;
        assert_eq!(plan.replica, part(index, false));
    }
    let seen = || async {
        let status = cluster.api::<DHCPServer>().get("lab").await.unwrap().status?;
        let first = status.replicas.into_iter().find(|report| report.name == "lab-2")?;
        first.observed_generation
    };
    eventually("the first has taken the edit", || async { seen().await == Some(2) }).await;
    drop(second);

    // All of the range is its own when the time is over.
    let over = json!({"data": {"before": null}});
    maps.patch("lab-dhcp-config", &PatchParams::default(), &Patch::Merge(&over)).await.unwrap();
    first.plan("of a server that is alone", |plan| plan.replica.is_none()).await;
}
