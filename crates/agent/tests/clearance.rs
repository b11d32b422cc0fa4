//! A DHCP server's agent against a real API server in this process: what of a network it takes into use, and when.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_agent::{Agent, Config, Dhcp, Runner, ServerPod, Snapshot, changes_of};
use causeway_api::{DHCPServer, names};
use causeway_ir::dhcp::DhcpPlan;
use causeway_testkit::{Cluster, eventually, soon};
use causeway_translate::dhcp::validate;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Runs nothing, and says that it does.
struct Paper(watch::Receiver<Option<Arc<DhcpPlan>>>);

impl Runner for Paper {
    type Plan = DhcpPlan;

    fn missing(&self) -> Vec<String> {
        Vec::new()
    }

    async fn snapshot(&self) -> Snapshot<DhcpPlan> {
        Snapshot { plan: self.0.borrow().clone(), ..Snapshot::default() }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.0.clone())
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        None
    }

    fn drain_limit(&self) -> Duration {
        Duration::ZERO
    }

    async fn drain(&self) {}
}

/// A running agent; gone without a word when dropped.
struct Running {
    plans: watch::Receiver<Option<Arc<DhcpPlan>>>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(client: Client, state: &Path) -> Self {
        let followed = Dhcp(ServerPod {
            name: "lab".into(),
            pod: "lab-0".into(),
            pod_ip: Ipv4Addr::LOCALHOST.into(),
            server_ip: [127, 0, 0, 2].into(),
        });
        let config = Config {
            namespace: "default".into(),
            name: "lab".into(),
            pod_ip: [127, 0, 0, 1].into(),
            field_manager: names::server_report_manager("dhcp", "lab-0"),
            state_dir: Some(state.to_owned()),
            accepted: None,
            require_grants: true,
        };
        let (agent, plans) = Agent::new(client, followed, config);
        let health = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let runner = Arc::new(Paper(plans.clone()));
        let task = tokio::spawn(async move {
            agent.run_until(runner, health, std::future::pending(), std::future::pending()).await;
        });
        Self { plans, task }
    }

    /// Waits for a plan like this.
    async fn plan(&self, what: &str, is_it: impl Fn(&DhcpPlan) -> bool) -> Arc<DhcpPlan> {
        let mut plans = self.plans.clone();
        let found = plans.wait_for(|plan| plan.as_ref().is_some_and(|plan| is_it(plan)));
        soon(&format!("a plan {what}"), found).await.unwrap().clone().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
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
    let agent = Running::start(cluster.client.clone(), state.path()).await;
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
    let agent = Running::start(cluster.client.clone(), state.path()).await;
    let plan = agent.plan("after a restart", |plan| plan.clients.iter().flatten().count() == 3).await;
    assert!(ends_at(&plan, 120), "{plan:?}");
    let fresh = tempfile::tempdir().unwrap();
    let stranger = Running::start(cluster.client.clone(), fresh.path()).await;
    tell(&cluster, Some(&longer), 4, "").await;
    let plan = stranger.plan("of a pod without a past", |_| true).await;
    assert_eq!(plan.clients.iter().flatten().count(), 4, "it waited for the word");
}
