//! Starts a server, shows how it is and stops it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use causeway_base::report;
use causeway_ir::Problem;
use causeway_ir::dns::DnsPlan;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::answer::Desk;
use crate::cookie::Secret;
use crate::director::Director;
use crate::forward;
use crate::metrics::Metrics;
use crate::query_log::{QueryLog, QueryLogTarget};
use crate::status::Status;

/// How a server runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads for datagrams; 0 is one per core.
    pub workers: usize,
    /// Where the line of each question goes.
    pub query_log: QueryLogTarget,
    /// Where the host says whom to ask, for a plan that does not.
    pub resolv_conf: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 0, query_log: QueryLogTarget::default(), resolv_conf: "/etc/resolv.conf".into() }
    }
}

/// Why a server can't start.
#[derive(Debug, Error)]
pub enum Error {
    /// The query log.
    #[error("can't open the query log")]
    OpenQueryLog(#[source] io::Error),
    /// The forwarding.
    #[error("can't forward")]
    Forward(#[source] forward::Error),
}

/// A running server.
pub struct Server {
    handle: Handle,
    stop: CancellationToken,
    director: tokio::task::JoinHandle<()>,
}

/// A view of a running server.
#[derive(Clone)]
pub struct Handle {
    status_rx: watch::Receiver<Status>,
    registry: Arc<Registry>,
}

/// Everything that makes a plan impossible to run here: what [`DnsPlan::validate`] finds, and files that it names and that
/// can't be used. A server refuses such a plan by itself.
pub fn problems(plan: &DnsPlan) -> Vec<Problem> {
    let problems = plan.validate();
    if !problems.is_empty() {
        return problems;
    }
    let metrics = Metrics::new();
    let upstreams = plan.forward.upstreams.iter().enumerate();
    let wrong = upstreams.filter_map(|(i, upstream)| {
        let error = forward::Upstream::new(upstream, &metrics).err()?;
        Some(Problem {
            path: format!("forward.upstreams[{i}].{}", error.field()),
            message: report::chain(&error),
        })
    });
    wrong.collect()
}

impl Server {
    /// Starts a server that runs the newest plan of a channel; `None` means that there is none yet.
    ///
    /// # Errors
    /// If the query log can't be opened.
    ///
    /// # Panics
    /// Outside of a tokio runtime, which looks after plans, connections and forwarding; datagrams have threads of their own.
    pub fn start(plans_rx: watch::Receiver<Option<Arc<DnsPlan>>>, options: &Options) -> Result<Self, Error> {
        let metrics = Metrics::new();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let log = QueryLog::start(&options.query_log, metrics.log_lines_lost.clone())
            .map_err(Error::OpenQueryLog)?;
        let mut secret = [0; 16];
        forward::secret_bytes(&mut secret);
        let workers = match options.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let desk = Arc::new(Desk { secret: Secret::new(secret), log });
        let (director, status_rx) =
            Director::new(desk, metrics, workers, options.resolv_conf.clone()).map_err(Error::Forward)?;
        let stop = CancellationToken::new();
        let handle = Handle { status_rx, registry: Arc::new(registry) };
        let director = tokio::spawn(director.run(plans_rx, stop.clone()));
        Ok(Self { handle, stop, director })
    }

    /// A view that can be given away.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops answering.
    pub async fn shutdown(self) {
        self.stop.cancel();
        if let Err(error) = self.director.await {
            tracing::error!(%error, "the server did not stop in good order");
        }
    }
}

impl Handle {
    /// What became of the newest plans.
    pub fn status(&self) -> Status {
        self.status_rx.borrow().clone()
    }

    /// The same, to wait for changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status_rx.clone()
    }

    /// Waits until this plan runs or was refused; `false` when the server is gone. Only for the newest plan: one that was
    /// replaced before the server saw it never settles.
    pub async fn settled(&self, plan: &Arc<DnsPlan>) -> bool {
        let is = |other: &Arc<DnsPlan>| Arc::ptr_eq(other, plan);
        let done = |status: &Status| {
            status.plan.as_ref().is_some_and(is) || status.refused.as_ref().is_some_and(|(p, _)| is(p))
        };
        self.watch().wait_for(done).await.is_ok()
    }

    /// All counters, to be encoded.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}
