//! Places for streams and sessions in one process, of either end: as many as its descriptors and memory allow, and none
//! for a tunnel that has as many already as are left for all others, nor for a client that has half as many. So a crowd in
//! one tunnel is refused at once, and neither another client of that tunnel nor one of another tunnel is.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::{Budget, Share, Throttle, capacity};
use causeway_ir::tunnel::TunnelId;

use crate::tally::{OpenStream, Tally};

/// Descriptors for links, ports, looks at services, the operator's connections and logs.
const RESERVED: u64 = 128;
/// What a stream may take of memory: its socket's buffers, which the kernel counts, and what waits for a slow reader.
const MEMORY: u64 = 64 << 10;
/// A limit that refuses is told once in this time.
const TELL: Duration = Duration::from_secs(10);

/// Which limit refuses a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Tunnel,
    TunnelShare,
    SourceShare,
}

impl Limit {
    /// What the client's end, and people, are told.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tunnel => "the tunnel has as many streams as it may have",
            Self::TunnelShare => "the tunnel has as many streams as are left for all others in this process",
            Self::SourceShare => {
                "the client has half as many streams as are left for all others in this process"
            }
        }
    }
}

/// The places of a process.
pub(crate) struct Places {
    tunnels: Arc<Budget<TunnelId>>,
    sources: Arc<Budget<IpAddr>>,
    told: Throttle,
}

impl Places {
    /// What this process can hold.
    pub(crate) fn of_this_process() -> Self {
        let descriptors = capacity::descriptors();
        // Where there are few descriptors, a part is kept back.
        let reserved = RESERVED.min(descriptors / 2);
        Self::new((descriptors - reserved).min(capacity::memory() / MEMORY))
    }

    fn new(places: u64) -> Self {
        let told = Throttle::new(TELL);
        Self { tunnels: Budget::new(places), sources: Budget::new(places), told }
    }

    /// A place for a stream, until it is dropped.
    ///
    /// # Errors
    /// The limit that refuses it.
    pub(crate) fn take(
        &self,
        tally: &Arc<Tally>,
        (tunnel, most): (TunnelId, u32),
        source: IpAddr,
    ) -> Result<Place, Limit> {
        let counted = tally.enter(most).ok_or(Limit::Tunnel)?;
        let left = self.sources.limit().saturating_sub(self.sources.used());
        let of_source = self.sources.take_within(source.to_canonical(), 1, Some((left / 2).max(1)));
        let of_source = of_source.ok_or(Limit::SourceShare)?;
        let of_tunnel = self.tunnels.take(tunnel, 1).ok_or(Limit::TunnelShare)?;
        Ok(Place { counted, _of_tunnel: of_tunnel, _of_source: of_source })
    }

    /// Logs a refusal, now and then.
    pub(crate) fn tell(&self, tunnel: &str, limit: Limit) {
        if let Some(refused) = self.told.pass() {
            let (streams, most) = (self.tunnels.used(), self.tunnels.limit());
            tracing::warn!(tunnel, refused, streams, most, "streams are refused: {}", limit.as_str());
        }
    }
}

/// A stream's place.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) counted: OpenStream,
    _of_tunnel: Share<TunnelId>,
    _of_source: Share<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_leaves_places_for_other_tunnels_and_clients() {
        let (places, tally) = (Places::new(300), Arc::new(Tally::default()));
        let client = |last: u8| IpAddr::from([10, 0, 0, last]);
        let crowd = |tunnel, source| -> (Vec<Place>, Limit) {
            let mut all = Vec::new();
            loop {
                match places.take(&tally, (tunnel, 1_000), source) {
                    Ok(place) => all.push(place),
                    Err(limit) => break (all, limit),
                }
            }
        };
        let (first, limit) = crowd(1, client(1));
        assert_eq!((first.len(), limit), (100, Limit::SourceShare));
        let (second, limit) = crowd(2, client(1));
        assert_eq!((second.len(), limit), (0, Limit::SourceShare), "the same client in another tunnel");
        let (third, limit) = crowd(1, client(2));
        assert_eq!((third.len(), limit), (50, Limit::TunnelShare), "another client in the same tunnel");
        let (fourth, _) = crowd(2, client(3));
        assert_eq!(fourth.len(), 50, "another client in another tunnel");
        drop((first, third, fourth));
        assert_eq!((places.tunnels.used(), places.sources.used()), (0, 0));
        assert_eq!(tally.snapshot().streams, 0, "also those that were refused are forgotten");
        assert!(matches!(places.take(&tally, (1, 0), client(1)), Err(Limit::Tunnel)));
    }
}
