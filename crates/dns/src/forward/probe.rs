//! Looks after resolvers: those that do not answer are asked every second whether they do again, and all of them now and
//! then for a name that nobody has. If that question comes back here, forwarding to that resolver goes in circles.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::exchange::by_datagram;
use super::question::{plain, random};
use super::upstream::Upstream;
use crate::wire::kind;

const HEALTH: Duration = Duration::from_secs(1);
const LOOPS: Duration = Duration::from_secs(30);

/// What marks the probes of this server. Their names are in no domain that resolvers know something of by themselves, as they do
/// of `.invalid` (RFC 6761), and each is another, so that none is answered from a cache on the way.
#[derive(Clone)]
pub(crate) struct Token {
    text: Arc<str>,
    /// A bit for each resolver whose probe came back since it was sent.
    seen: Arc<AtomicU64>,
}

impl Token {
    pub(super) fn new() -> Self {
        let mut bytes = [0; 16];
        random(&mut bytes);
        Self { text: format!("{:032x}", u128::from_be_bytes(bytes)).into(), seen: Arc::default() }
    }

    fn name(&self, index: usize, round: u64) -> String {
        format!("{index}-{round}.{}", self.text)
    }

    /// Whether a question is one of our probes; whoever sent it here loops.
    pub(super) fn is_back(&self, name: &[u8], upstreams: &[Upstream]) -> bool {
        let Some((&length, rest)) = name.split_first() else { return false };
        let Some((label, domain)) = rest.split_at_checked(usize::from(length)) else { return false };
        if domain.get(1..).and_then(|domain| domain.strip_suffix(&[0])) != Some(self.text.as_bytes()) {
            return false;
        }
        let index = label.split(|byte| *byte == b'-').next().and_then(|index| str::from_utf8(index).ok());
        if let Some(index) = index.and_then(|index| index.parse::<usize>().ok())
            && let Some(upstream) = upstreams.get(index)
        {
            self.seen.fetch_or(1 << (index % 64), Relaxed);
            upstream.set_loops(true);
        }
        true
    }
}

/// Runs for ever.
pub(super) async fn run(upstreams: Arc<[Upstream]>, token: Token, limit: Duration) {
    let (mut look_for_loops, mut round) = (Instant::now(), 0);
    loop {
        if Instant::now() >= look_for_loops {
            look_for_loops += LOOPS;
            round += 1;
            let probes = upstreams.iter().enumerate().filter(|(_, upstream)| !upstream.is_tls());
            join_all(probes.map(async |(index, upstream)| {
                let bit = 1 << (index % 64);
                token.seen.fetch_and(!bit, Relaxed);
                // Whether and what it answers does not matter.
                let _ = by_datagram(upstream, plain(&token.name(index, round), kind::A, true), limit).await;
                upstream.set_loops(token.seen.load(Relaxed) & bit != 0);
            }))
            .await;
        }
        // However long others may take for an answer: the next round waits for this one.
        let limit = limit.min(HEALTH);
        let ill = upstreams.iter().filter(|upstream| !upstream.is_healthy() && !upstream.loops());
        join_all(ill.map(async |upstream| {
            // Any answer will do, and without recursion it comes at once.
            let answered = if upstream.is_tls() {
                let asked = tokio::time::timeout(limit, async {
                    upstream.stream().ask(&plain(".", kind::NS, false).packet).await
                });
                matches!(asked.await, Ok(Ok(_)))
            } else {
                by_datagram(upstream, plain(".", kind::NS, false), limit).await.is_ok()
            };
            if answered {
                upstream.is_back();
            }
        }))
        .await;
        tokio::time::sleep(HEALTH).await;
    }
}
