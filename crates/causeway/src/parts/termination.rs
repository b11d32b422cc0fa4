//! The request that this process ends: SIGTERM from a supervisor, SIGINT (Ctrl-C) from a person.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Takes the two signals, which no longer end the process by themselves.
pub(crate) struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("can't listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for either.
    ///
    /// # Cancellation
    /// May be dropped and called again; a signal that comes between is not lost.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
