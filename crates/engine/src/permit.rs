//! The permit to hold one more connection or session.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::close_reason::CloseReason;
use crate::limits::FromSource;
use crate::listener::Listener;
use crate::worker::Worker;

/// Counts as a connection of the engine and of a listener until dropped.
pub(crate) struct Permit {
    worker: Rc<Worker>,
    listener: Arc<Listener>,
    source: Option<FromSource>,
}

impl Permit {
    /// Counts a new connection.
    ///
    /// # Errors
    /// Why it has to be refused; that is not counted yet.
    pub(crate) fn take(worker: &Rc<Worker>, listener: &Arc<Listener>) -> Result<Self, CloseReason> {
        Self::count(worker, listener)?.in_time()
    }

    fn count(worker: &Rc<Worker>, listener: &Arc<Listener>) -> Result<Self, CloseReason> {
        listener.metrics.total.inc();
        listener.metrics.active.inc();
        let (metrics, limits) = (&worker.shared.metrics, &worker.shared.limits);
        let before = metrics.active.inc();
        let permit = Self { worker: Rc::clone(worker), listener: Arc::clone(listener), source: None };
        if before >= i64::from(limits.connections()) {
            return Err(CloseReason::ConnectionLimit);
        }
        Ok(permit)
    }

    /// Within the rate of new connections.
    fn in_time(self) -> Result<Self, CloseReason> {
        if self.worker.shared.limits.admit() { Ok(self) } else { Err(CloseReason::RateLimit) }
    }

    /// The same for a client whose address is known.
    ///
    /// # Errors
    /// The same, and if the client may not connect or has too many connections.
    pub(crate) fn take_for(
        client: IpAddr,
        worker: &Rc<Worker>,
        listener: &Arc<Listener>,
    ) -> Result<Self, CloseReason> {
        let mut permit = Self::count(worker, listener)?;
        if !listener.allows(client) {
            return Err(CloseReason::SourceNotAllowed);
        }
        permit.source = Some(worker.shared.limits.enter(client)?);
        // Last: whoever is refused anyway must not use up the rate of those who are not.
        permit.in_time()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.listener.metrics.active.dec();
        self.worker.shared.metrics.active.dec();
        self.worker.shared.metrics.ended.inc();
    }
}
