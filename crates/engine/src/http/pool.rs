//! Connections to endpoints that wait for their next request, those of one core.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::clock;
use crate::cluster::Endpoint;
use crate::tcp::Upstream;

/// Of one endpoint.
const MOST: usize = 256;
/// Milliseconds; less than the keep-alive of most servers.
const IDLE: u64 = 30_000;

struct Idle {
    upstream: Upstream,
    endpoint: Arc<Endpoint>,
    since: u64,
}

/// The connections of one core that wait, by endpoint; the last one back is the first to go.
#[derive(Default)]
pub(crate) struct Pool {
    idle: RefCell<HashMap<*const Endpoint, Vec<Idle>>>,
}

impl Pool {
    /// One that has heard nothing since it was given back, which is not longer ago than `limit` milliseconds.
    pub(crate) fn take(&self, endpoint: &Arc<Endpoint>, limit: u64) -> Option<Upstream> {
        let mut idle = self.idle.borrow_mut();
        let of = idle.get_mut(&Arc::as_ptr(endpoint))?;
        let is_fresh = |idle: &mut Idle| clock::woken().saturating_sub(idle.since) <= limit;
        while let Some(Idle { upstream, .. }) = of.pop_if(is_fresh) {
            if upstream.socket().is_quiet() {
                return Some(upstream);
            }
        }
        None
    }

    pub(crate) fn give_back(&self, endpoint: &Arc<Endpoint>, upstream: Upstream) {
        let mut idle = self.idle.borrow_mut();
        let of = idle.entry(Arc::as_ptr(endpoint)).or_default();
        if of.len() < MOST && endpoint.is_serving() {
            of.push(Idle { upstream, endpoint: Arc::clone(endpoint), since: clock::woken() });
        }
    }

    /// Closes what has idled too long, was closed by its endpoint, or leads to one that left the plan.
    pub(crate) fn sweep(&self) {
        let now = clock::now();
        self.idle.borrow_mut().retain(|_, of| {
            of.retain(|idle| {
                now.saturating_sub(idle.since) < IDLE
                    && idle.endpoint.is_serving()
                    && idle.upstream.socket().is_quiet()
            });
            !of.is_empty()
        });
    }
}
