//! What agents give their plans to here, and agents that run until they are dropped.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_agent::{Agent, Config, Followed, Leave, Runner, Snapshot, changes_of};
use causeway_testkit::soon;
use futures::stream::BoxStream;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Runs nothing, and says that it does.
struct Paper<P>(watch::Receiver<Option<Arc<P>>>);

impl<P: Send + Sync + 'static> Runner for Paper<P> {
    type Plan = P;

    fn missing(&self) -> Vec<String> {
        if self.0.borrow().is_some() { Vec::new() } else { vec!["there is no plan".into()] }
    }

    async fn snapshot(&self) -> Snapshot<P> {
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

/// A running agent; gone without a word when dropped, like a killed process.
pub struct Running<P> {
    pub plans: watch::Receiver<Option<Arc<P>>>,
    pub health: std::net::SocketAddr,
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
}

impl<P: Send + Sync + 'static> Running<P> {
    /// Follows the object of this name in the namespace `default`; `manager` is the field manager of its report.
    pub async fn start<F: Followed<Plan = P>>(
        client: Client,
        followed: F,
        report: (&str, String),
        state: &Path,
    ) -> Self {
        Self::start_that_leaves(Leave::Unready, client, followed, report, state).await
    }

    /// The same, which leaves like this.
    pub async fn start_that_leaves<F: Followed<Plan = P>>(
        leave: Leave,
        client: Client,
        followed: F,
        (name, manager): (&str, String),
        state: &Path,
    ) -> Self {
        let config = Config {
            namespace: "default".into(),
            name: name.into(),
            pod_ip: [127, 0, 0, 1].into(),
            field_manager: manager,
            state_dir: Some(state.to_owned()),
            accepted: Some(state.join("accepted.json")),
            require_grants: true,
            leave,
        };
        let (agent, plans) = Agent::new(client, followed, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let health = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (stopped, runner) = (stop.clone(), Arc::new(Paper(plans.clone())));
        let task = tokio::spawn(async move {
            agent.run_until(runner, listener, stopped.cancelled(), std::future::pending()).await;
        });
        Self { plans, health, stop, task }
    }

    /// Waits for a plan like this.
    pub async fn plan(&self, what: &str, is_it: impl Fn(&P) -> bool) -> Arc<P> {
        let mut plans = self.plans.clone();
        let found = plans.wait_for(|plan| plan.as_ref().is_some_and(|plan| is_it(plan)));
        soon(&format!("a plan {what}"), found).await.unwrap().clone().unwrap()
    }
}

impl<P> Drop for Running<P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
