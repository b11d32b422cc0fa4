//! A flow of datagrams on a link: each arrives whole or not at all. What does not fit is dropped, never queued.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::frame::MAX_PAYLOAD;
use crate::inbound::Broken;
use crate::stream::Shared;

/// Takes the datagrams that come; called by the link's driver, so it must not wait.
pub type Sink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// One flow of datagrams. Dropped, it ends at both ends.
pub struct Flow {
    shared: Arc<Shared>,
    /// What the other end is told when it ends.
    reason: String,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

impl Flow {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, reason: String::new() }
    }

    /// Sends a datagram; says whether there was room for it.
    pub fn send(&self, datagram: &[u8]) -> bool {
        let fits = datagram.len() <= MAX_PAYLOAD && self.shared.link.outbox.has_room_for_datagram();
        if fits {
            self.shared.send_datagram(datagram);
        }
        fits
    }

    /// Ends it and tells the other end why.
    pub fn refuse(mut self, reason: impl Into<String>) {
        self.reason = reason.into();
    }

    /// Whether the other end, the link or a long silence has ended it.
    pub fn is_over(&self) -> bool {
        self.shared.is_broken()
    }

    /// Waits for its end; gives the other end's reason if it gave one. One task at a time may wait.
    pub async fn over(&self) -> Option<String> {
        poll_fn(|cx| {
            self.shared.reader.register(cx.waker());
            match &self.shared.inbound().broken {
                None => Poll::Pending,
                Some(Broken::There(reason)) if !reason.is_empty() => Poll::Ready(Some(reason.clone())),
                Some(_) => Poll::Ready(None),
            }
        })
        .await
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.shared.release(false, &self.reason);
    }
}
