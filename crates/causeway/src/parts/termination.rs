//! The request that this process ends: SIGTERM from a supervisor, SIGINT (Ctrl-C) from a person.

use anyhow::Context;
use rustix::process::Signal as Name;
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
        self.which().await;
    }

    /// Waits for either, and says which it is.
    ///
    /// # Cancellation
    /// As of [`Self::asked`].
    pub(crate) async fn which(&mut self) -> Name {
        tokio::select! {
            _ = self.terminate.recv() => Name::TERM,
            _ = self.interrupt.recv() => Name::INT,
        }
    }
}
