//! Users of tunnels whose backends are dead: they come at a steady pace, wait for an answer that never comes, and give
//! up. How fast they are told of it is counted.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use crate::compare::load::{Figures, nanos, quantiles};
use crate::compare::net::{self, EventFlags, Poller};

/// The next user of each dead tunnel comes after this time.
const PACE: Duration = Duration::from_millis(10);
const GIVES_UP: Duration = Duration::from_secs(3);

/// Users that keep coming until they are called off.
pub(crate) struct Fire {
    over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Figures>>,
}

impl Fire {
    pub(crate) fn open(at: Vec<SocketAddrV4>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        Self { over, thread: std::thread::spawn(move || shoot(&at, &seen)) }
    }

    /// Calls them off and says how they fared.
    pub(crate) fn cease(self) -> anyhow::Result<Figures> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the users of dead tunnels broke down"))?
    }
}

fn shoot(at: &[SocketAddrV4], over: &AtomicBool) -> anyhow::Result<Figures> {
    let mut poller = Poller::new()?;
    let mut waiting: Vec<Option<(OwnedFd, Instant)>> = Vec::new();
    let mut free = Vec::new();
    let (mut told, mut gave_up, mut turn) = (Vec::new(), 0u32, 0);
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += PACE;
            for address in at {
                turn += 1;
                let Ok(socket) = net::connect(*address, turn) else { continue };
                let slot = free.pop().unwrap_or_else(|| {
                    waiting.push(None);
                    waiting.len() - 1
                });
                poller.add(&socket, slot, EventFlags::IN)?;
                waiting[slot] = Some((socket, Instant::now()));
            }
            for (slot, user) in waiting.iter_mut().enumerate() {
                if user.as_ref().is_some_and(|(_, came)| came.elapsed() > GIVES_UP) {
                    *user = None;
                    free.push(slot);
                    gave_up += 1;
                }
            }
        }
        let events = poller.wait(Some(next.saturating_duration_since(Instant::now())))?;
        for event in 0..events {
            // Nothing is ever sent to them, so that something happened means that they were told.
            let (slot, _) = poller.event(event);
            if let Some((_, came)) = waiting[slot].take() {
                told.push(nanos(came));
                free.push(slot);
            }
        }
    }
    let mut times = Figures::new();
    let refused = told.len() as f64;
    quantiles(&mut told, &mut times);
    let mut figures = Figures::from([("refused", refused), ("gaveUp", f64::from(gave_up))]);
    if let Some(time) = times.get("p50Us") {
        figures.insert("refusalP50Us", *time);
    }
    Ok(figures)
}
