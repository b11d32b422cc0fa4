//! The task behind a stack: it takes packets from the device, gives them to flows, and sends what flows have to send.

mod core;
mod mailbox;
mod ports;
mod segments;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::Sleep;

pub(crate) use self::core::Core;
pub(crate) use mailbox::{Command, Mailbox};

use crate::config::Config;
use crate::device::Device;
use crate::flow::Incoming;

/// How often everything is done before others get a turn.
const ROUNDS: usize = 32;
/// How long the task sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// A stack at work.
pub(crate) struct Engine<D> {
    device: D,
    core: Core,
    mailbox: Arc<Mailbox>,
    sleep: Pin<Box<Sleep>>,
}

impl<D: Device> Engine<D> {
    pub(crate) fn new(
        device: D,
        config: &Config,
        mailbox: Arc<Mailbox>,
        arrivals: mpsc::Sender<Incoming>,
    ) -> Self {
        let core = Core::new(config, device.mtu(), device.is_sound(), Arc::clone(&mailbox), arrivals);
        let sleep = Box::pin(tokio::time::sleep(LONGEST_SLEEP));
        Self { device, core, mailbox, sleep }
    }

    /// Works until it is told to stop, or the device fails.
    pub(crate) async fn run(mut self) {
        if let Err(error) = poll_fn(|cx| self.poll(cx)).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the device of a network stack failed");
        }
        self.mailbox.close();
        self.core.abort_all();
        // The other ends are told, if that goes without waiting.
        self.core.send(&mut self.device, Instant::now());
        poll_fn(|cx| {
            let _ = self.device.poll_flush(cx);
            Poll::Ready(())
        })
        .await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.mailbox.register(cx.waker());
        for _ in 0..ROUNDS {
            let now = Instant::now();
            if !self.core.take_mail(now) {
                return Poll::Ready(Ok(()));
            }
            let core = &mut self.core;
            let received = self.device.poll_receive(cx, &mut |packet| core.take(packet, now))?;
            if self.device.take_renewed() {
                self.core.nudge(now);
            }
            self.core.tick(now);
            self.core.send(&mut self.device, now);
            let flushed = self.device.poll_flush(cx)?;
            let waits = flushed.is_pending() || !self.core.has_more();
            if received.is_pending() && waits && !self.is_due(cx) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sleeps until something is to be done; true if that is now.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let latest = Instant::now() + LONGEST_SLEEP;
        let deadline = self.core.deadline().map_or(latest, |deadline| deadline.min(latest));
        // Waking too early costs less than moving the timer each time that something moves on.
        if deadline < self.sleep.deadline().into_std() || self.sleep.is_elapsed() {
            self.sleep.as_mut().reset(deadline.into());
        }
        self.sleep.as_mut().poll(cx).is_ready()
    }
}
