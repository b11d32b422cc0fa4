//! When routers are advertised: a few times at the start, then now and then, and when somebody asks.

use std::time::{Duration, Instant};

use causeway_base::random;
use causeway_ir::dhcp::DhcpPlan;

use super::{Sockets, card};
use crate::v6::advertisement;

/// Advertisements at the start, for machines that are there already.
const FIRST: u32 = 3;
/// Between those, and at least between any two (RFC 4861, §10).
const LEAST: Duration = Duration::from_secs(3);
/// Who asks waits for at most this long, so that several are answered at once.
const ANSWER: Duration = Duration::from_millis(500);
/// Messages that are taken at a time: clients of DHCP wait meanwhile.
const MOST: usize = 64;

/// The times of advertisements.
pub(super) struct Advertiser {
    sent: u32,
    last: Option<Instant>,
    next: Instant,
}

impl Advertiser {
    pub(super) fn new() -> Self {
        Self { sent: 0, last: None, next: Instant::now() }
    }

    /// For how long nothing is to be done; a second if nothing ever is.
    pub(super) fn pause(&self, sockets: &Sockets) -> Duration {
        if sockets.solicitations.is_none() || sockets.card.is_none() {
            return Duration::from_secs(1);
        }
        self.next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    /// Says that a router is gone, if the next plan has another or none.
    pub(super) fn leave(plan: &DhcpPlan, next: &DhcpPlan, sockets: &Sockets) {
        let (Some(_), Some(card)) = (&sockets.solicitations, &sockets.card) else { return };
        if let Some((router, message)) = advertisement::farewell(plan, next)
            && let Err(error) = card.multicast(router, &message)
        {
            tracing::debug!(%error, "a router could not be withdrawn");
        }
    }

    /// Advertises if it is time to, or somebody asked.
    pub(super) fn advertise(&mut self, plan: &DhcpPlan, sockets: &Sockets, buffer: &mut [u8]) {
        let (Some(asked), Some(card), Some(ipv6)) = (&sockets.solicitations, &sockets.card, &plan.ipv6)
        else {
            return;
        };
        let now = Instant::now();
        for _ in 0..MOST {
            let Ok((length, _)) = asked.recv_from(buffer) else { break };
            if length > 0 && buffer[0] == advertisement::SOLICITATION {
                let soon = now + ANSWER.mul_f64(random::fraction());
                let soon = self.last.map_or(soon, |last| soon.max(last + LEAST));
                self.next = self.next.min(soon);
            }
        }
        if self.next > now {
            return;
        }
        let message = advertisement::message(plan, card.hardware());
        let from = ipv6.gateway.or_else(|| card::link_local(&plan.interface));
        if let Some((message, from)) = message.zip(from)
            && let Err(error) = card.multicast(from, &message)
        {
            tracing::debug!(%error, "a router could not be advertised");
        }
        self.sent += 1;
        self.last = Some(now);
        let interval = ipv6.interval.get().mul_f64(0.75 + random::fraction() / 2.0);
        self.next = now + if self.sent < FIRST { interval.min(LEAST) } else { interval };
    }
}
