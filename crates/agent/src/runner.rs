//! What executes plans, as the agent sees it: our own engine, an Envoy that is fed, or a server of another kind. It gets
//! its plans through the channel that [`Agent::new`](crate::Agent::new) gives out.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

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
    /// Open connections by cluster.
    pub connections: HashMap<String, i64>,
}

impl<P> Default for Snapshot<P> {
    fn default() -> Self {
        Self { plan: None, listening: Vec::new(), refused: None, trouble: None, connections: HashMap::new() }
    }
}

/// The changes of a watched value, for [`Runner::changes`].
pub fn changes_of<T: Send + Sync + 'static>(value: watch::Receiver<T>) -> BoxStream<'static, ()> {
    stream::unfold(value, async |mut value| value.changed().await.is_ok().then_some(((), value))).boxed()
}
