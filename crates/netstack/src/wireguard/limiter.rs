//! Handshakes are dear to answer: who sends many must prove that it is where it says, by a cookie that is sent there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gotatun::noise::TunnResult;
use gotatun::noise::rate_limiter::RateLimiter;
use gotatun::packet::{Packet, WgKind};
use gotatun::x25519;

/// Handshakes a second from one address that need no cookie.
const OF_ONE: u64 = 64;
/// The same from all addresses together: a flood has as many addresses as it likes.
const OF_ALL: u32 = 512;
const PERIOD: Duration = Duration::from_secs(1);

/// Counts handshakes.
pub(super) struct Limiter {
    usual: Arc<RateLimiter>,
    /// One that always asks for a cookie.
    strict: RateLimiter,
    began: Instant,
    count: u32,
}

impl Limiter {
    pub(super) fn new(key: &x25519::PublicKey, now: Instant) -> Self {
        Self {
            usual: Arc::new(RateLimiter::new(key, OF_ONE)),
            strict: RateLimiter::new(key, 0),
            began: now,
            count: 0,
        }
    }

    pub(super) fn usual(&self) -> Arc<RateLimiter> {
        Arc::clone(&self.usual)
    }

    /// Reads a packet and checks what can be checked without keys; else, what to answer.
    pub(super) fn check(
        &mut self,
        from: SocketAddr,
        packet: Packet,
        now: Instant,
    ) -> Result<WgKind, TunnResult> {
        if now.saturating_duration_since(self.began) >= PERIOD {
            (self.began, self.count) = (now, 0);
            self.usual.try_reset_count();
            self.strict.try_reset_count();
        }
        let limiter = if self.count < OF_ALL { &self.usual } else { &self.strict };
        let checked = limiter.verify_packet(from, packet)?;
        if matches!(checked, WgKind::HandshakeInit(_) | WgKind::HandshakeResp(_)) {
            self.count = self.count.saturating_add(1);
        }
        Ok(checked)
    }
}
