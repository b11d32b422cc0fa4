//! What the requests of one client's connection have in common.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use super::buffer::Buffers;
use super::decision::Client;
use crate::table::{CurrentTable, Within};
use crate::worker::{Stop, Worker};

pub(crate) struct Origin {
    pub(crate) client: Client,
    pub(crate) within: Within,
    pub(crate) table: CurrentTable,
    pub(crate) stop: Stop,
    pub(crate) worker: Rc<Worker>,
}

impl Origin {
    pub(crate) fn buffers(&self) -> &Buffers {
        &self.worker.workspace.buffers
    }

    /// How long the client may take to say what it wants.
    pub(crate) fn handshake_millis(&self) -> u64 {
        self.worker.shared.limits.handshake_timeout().as_millis() as u64
    }

    /// Whether the client is told that the connection ends, for it asks elsewhere then. What is idle stays until the
    /// listener is gone: the next request may be on its way.
    pub(crate) fn ends_soon(&self) -> bool {
        self.is_leaving() || self.worker.shared.ends_soon.load(Relaxed)
    }

    /// Whether the listener takes nothing more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.stop.told.is_cancelled()
    }
}
