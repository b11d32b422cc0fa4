//! What is answered at once: from the plan, from the cache, or with a refusal. Nothing here allocates or waits.

use std::net::IpAddr;
use std::sync::Arc;

use crate::cache::Lookup;
use crate::clock::Moment;
use crate::cookie::Secret;
use crate::limiter::{Limiter, Sort, Verdict};
use crate::metrics::{Origin, ViewCounts};
use crate::query_log::QueryLog;
use crate::relay;
use crate::table::{Table, View};
use crate::wire::query::{Edns, Parsed, Query, parse};
use crate::wire::response::{Response, Tail, Written};
use crate::wire::{code, flag, kind, u16_at};
use crate::zones::Found;

/// What answering needs beside the table.
pub(crate) struct Desk {
    pub(crate) secret: Secret,
    pub(crate) log: QueryLog,
}

/// Who asks, and how.
#[derive(Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) address: IpAddr,
    /// The worker that counts it.
    pub(crate) worker: usize,
    pub(crate) udp: bool,
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written(Written),
    Silence,
    /// Only another resolver knows.
    Forward,
}

/// What goes into the answer beside records.
struct Frame<'a> {
    desk: &'a Desk,
    table: &'a Table,
    asker: Asker,
    now: Moment,
}

/// Answers a message into `out`, which is as long as an answer may be.
pub(crate) fn answer(
    desk: &Desk,
    table: &Table,
    asker: Asker,
    now: Moment,
    limiter: Option<&mut Limiter>,
    packet: &[u8],
    out: &mut [u8],
) -> Outcome {
    let frame = Frame { desk, table, asker, now };
    match parse(packet) {
        Parsed::Silence => Outcome::Silence,
        Parsed::Bad(code) => frame.complain(packet, code, limiter, out),
        Parsed::CookieOnly(edns) => frame.cookie_only(packet, edns, limiter, out),
        Parsed::Query(query) => frame.answer(&query, limiter, out),
    }
}

/// Our side of EDNS to this question, and whether the client is where it says.
pub(crate) fn tail(
    secret: &Secret,
    query_edns: Option<Edns<'_>>,
    client: IpAddr,
    now: Moment,
) -> (Tail, bool) {
    let Some(edns) = query_edns else { return (Tail::default(), false) };
    let checked = edns.cookie.and_then(|cookie| secret.check(cookie, client, now.unix));
    let cookie = checked.map(|(cookie, _)| cookie);
    (Tail { edns: true, dnssec: edns.dnssec, cookie, error: None }, checked.is_some_and(|(_, known)| known))
}

impl Frame<'_> {
    fn complain(&self, packet: &[u8], code: u16, limiter: Option<&mut Limiter>, out: &mut [u8]) -> Outcome {
        let counts = &self.table.nobody;
        if self.limit(limiter, Sort::Refusal) != Verdict::Send {
            counts.limited(self.asker.worker);
            return Outcome::Silence;
        }
        let id = u16_at(packet, 0).unwrap_or_default();
        let flags = u16_at(packet, 2).unwrap_or_default() & (flag::OPCODE | flag::RD);
        let tail = Tail { edns: code == code::BADVERS, ..Tail::default() };
        let mut response = Response::bare(id, flags, tail, out);
        response.code(code);
        self.finish(response, counts, 0)
    }

    fn cookie_only(
        &self,
        packet: &[u8],
        edns: Edns<'_>,
        limiter: Option<&mut Limiter>,
        out: &mut [u8],
    ) -> Outcome {
        if self.limit(limiter, Sort::Refusal) != Verdict::Send {
            return Outcome::Silence;
        }
        let (tail, _) = tail(&self.desk.secret, Some(edns), self.asker.address, self.now);
        let id = u16_at(packet, 0).unwrap_or_default();
        self.finish(Response::bare(id, 0, tail, out), &self.table.nobody, 0)
    }

    fn answer(&self, query: &Query<'_>, limiter: Option<&mut Limiter>, out: &mut [u8]) -> Outcome {
        let out = if self.asker.udp {
            let most = query.longest_datagram().min(out.len());
            &mut out[..most]
        } else {
            out
        };
        let (tail, known) = tail(&self.desk.secret, query.edns, self.asker.address, self.now);
        let view = self.table.view(self.asker.address);
        let counts = view.map_or(&self.table.nobody, |view| &view.counts);
        let sort = if view.is_some() { Sort::Answer } else { Sort::Refusal };
        let verdict = if known { Verdict::Send } else { self.limit(limiter, sort) };
        if verdict != Verdict::Send {
            counts.limited(self.asker.worker);
            if verdict == Verdict::Drop {
                return Outcome::Silence;
            }
            let mut response = Response::to(query, tail, out);
            response.set(flag::TC);
            return self.finish_query(response, counts, query);
        }
        let refusal = match view {
            _ if query.kind == kind::OPT => Some(code::FORMERR),
            None => Some(code::REFUSED),
            // Zones are not handed out, and there is nothing in other classes.
            Some(_) if !query.is_internet() || matches!(query.kind, kind::AXFR | kind::IXFR) => {
                Some(code::REFUSED)
            }
            Some(_) => None,
        };
        if let (Some(view), None) = (view, refusal) {
            return self.by_view(view, query, tail, out);
        }
        let mut response = Response::to(query, tail, out);
        response.code(refusal.unwrap_or(code::REFUSED));
        self.finish_query(response, counts, query)
    }

    fn by_view(&self, view: &View, query: &Query<'_>, tail: Tail, out: &mut [u8]) -> Outcome {
        let recurses = view.recurses(self.asker.address);
        let name = query.name.as_bytes();
        let (node, exists) = match view.zones.find(name) {
            Found::Node(node) => (node, true),
            Found::Missing(node) => (node, false),
            // A question that does not ask for recursion is one for what others asked.
            Found::Elsewhere if recurses && query.flags & flag::RD != 0 => {
                return self.by_cache(view, query, tail, out);
            }
            Found::Elsewhere => {
                let mut response = Response::to(query, tail, out);
                response.code(code::REFUSED);
                return self.finish_query(response, &view.counts, query);
            }
        };
        let mut response = Response::to(query, tail, out);
        response.set(if recurses { flag::AA | flag::RA } else { flag::AA });
        if let Some(set) = node.set(query.kind).filter(|_| exists) {
            response.answer(set.count, &set.records);
        } else if query.kind == kind::SOA && exists && view.zones.is_apex(node, name.len()) {
            view.zones.soa(node, name.len(), false, |soa| response.answered(soa));
        } else {
            response.code(if exists { code::NOERROR } else { code::NXDOMAIN });
            view.zones.soa(node, name.len(), true, |soa| response.authority(soa));
        }
        self.finish_query(response, &view.counts, query)
    }

    fn by_cache(&self, view: &View, query: &Query<'_>, tail: Tail, out: &mut [u8]) -> Outcome {
        let forwarder = &self.table.forwarder;
        let most = forwarder.cache.max_ttl();
        let lookup = forwarder.cache.find(query, self.now.millis, |reply, age| {
            relay::answer(reply, &view.zones, query, tail, age, most, out)
        });
        match lookup {
            Lookup::Fresh { found: Some(written), refresh } => {
                if refresh {
                    forwarder.refresh(query);
                }
                self.count(&view.counts, query, written, Origin::Cache);
                Outcome::Written(written)
            }
            Lookup::Fresh { found: None, .. } => Outcome::Silence,
            Lookup::Stale(_) | Lookup::Nothing => Outcome::Forward,
        }
    }

    fn limit(&self, limiter: Option<&mut Limiter>, sort: Sort) -> Verdict {
        limiter.map_or(Verdict::Send, |limiter| {
            limiter.check(self.asker.address, sort, self.table.rate, self.now.millis)
        })
    }

    fn finish_query(&self, response: Response<'_>, counts: &Arc<ViewCounts>, query: &Query<'_>) -> Outcome {
        let Some(written) = response.finish() else { return Outcome::Silence };
        self.count(counts, query, written, Origin::Plan);
        Outcome::Written(written)
    }

    fn finish(&self, response: Response<'_>, counts: &Arc<ViewCounts>, kind: u16) -> Outcome {
        let Some(written) = response.finish() else { return Outcome::Silence };
        counts.count(self.asker.worker, kind, written.code, Origin::Plan);
        Outcome::Written(written)
    }

    fn count(&self, counts: &Arc<ViewCounts>, query: &Query<'_>, written: Written, origin: Origin) {
        // By TCP it is written again, with more room.
        if written.truncated && !self.asker.udp {
            return;
        }
        counts.count(self.asker.worker, query.kind, written.code, origin);
        self.desk.log.write(&counts.name, self.asker, query, written.code, origin);
    }
}

#[cfg(test)]
mod tests;
