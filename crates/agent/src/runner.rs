//! What executes plans, as the agent sees it: our own engine, an Envoy that is fed, or a server of another kind. It gets
//! its plans through the channel that [`Agent::new`](crate::Agent::new) gives out.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::LeaseCounts;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

/// Executes the plans of a channel.
pub trait Runner: Send + Sync + 'static {
    /// What it executes.
    type Plan;

    /// Why traffic would not pass; empty if it would.
    fn missing(&self) -> Vec<String>;

    /// How it stands.
    fn snapshot(&self) -> impl Future<Output = Snapshot<Self::Plan>> + Send;

    /// An item whenever the plan that runs, or how it runs, has changed.
    fn changes(&self) -> BoxStream<'static, ()>;

    /// A spec was refused before it became a plan: to be counted.
    fn spec_refused(&self) {}

    /// Its metrics and their media type; none if it has none to show at the moment.
    fn metrics(&self) -> impl Future<Output = Option<(&'static str, String)>> + Send;

    /// How long connections may go on after the end was asked for.
    fn drain_limit(&self) -> Duration;

    /// Clients are told that connections end, where they can be told; new ones are still taken. Called once, before the drain.
    fn say_farewell(&self) {}

    /// Takes nothing new, lets what is open end within the plan's time, and stops. Called once.
    fn drain(&self) -> impl Future<Output = ()> + Send;
}

/// A runner at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot<P> {
    /// The plan that runs.
    pub plan: Option<Arc<P>>,
    /// Addresses that are listened on.
    pub listening: Vec<String>,
    /// Why it stays with an earlier plan.
    pub refused: Option<String>,
    /// What keeps it from its work.
    pub trouble: Option<String>,
    /// Neighbours on the isolated network that do not answer; the agent fills it in.
    pub unreached: Vec<String>,
    /// Endpoints that take connections by the runner's own health checks, by cluster; only of clusters that have checks.
    pub healthy: HashMap<String, usize>,
    /// Resolvers that a DNS server asks and that do not answer.
    pub failing_upstreams: Vec<String>,
    /// The addresses of a DHCP server.
    pub leases: Option<LeaseCounts>,
}

impl<P> Default for Snapshot<P> {
    fn default() -> Self {
        Self {
            plan: None,
            listening: Vec::new(),
            refused: None,
            trouble: None,
            unreached: Vec::new(),
            healthy: HashMap::new(),
            failing_upstreams: Vec::new(),
            leases: None,
        }
    }
}

/// The changes of a watched value, for [`Runner::changes`].
pub fn changes_of<T: Send + Sync + 'static>(value: watch::Receiver<T>) -> BoxStream<'static, ()> {
    stream::unfold(value, async |mut value| value.changed().await.is_ok().then_some(((), value))).boxed()
}
