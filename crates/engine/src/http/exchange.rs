//! A request on its way: an endpoint is chosen and reached, the request is sent and the answer brought back; what fails
//! before the client has heard a word is tried again where that is safe, or answered here.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;

use causeway_base::backoff::Backoff;
use causeway_ir::ProxyVersion;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::attempt::{Attempt, Heard, SoFar};
use super::decision::{self, Forward};
use super::mirror::Copies;
use super::origin::Origin;
use super::pages::write_error;
use super::reach::{self, Connected, How, Server};
use super::record::RequestRecord;
use super::reply::Reply;
use super::source::Source;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint, State};
use crate::connections::Entry;
use crate::metrics::Held;
use crate::tcp::{Carries, Downstream, proxy_protocol};

/// What becomes of the client's connection, or of its stream.
pub(crate) enum After {
    /// The next request.
    Next,
    Close(CloseReason),
    /// It is closed once the client has had time to read the answer.
    Linger(CloseReason),
    /// It is cut, so that nobody takes what was sent for the whole.
    Reset(CloseReason),
}

/// Milliseconds that a connection may have waited to be given a request that can't be sent twice.
const FRESH: u64 = 1000;
/// How often an endpoint may say that it did not look at a request.
const REFUSALS: u32 = 3;
/// How often a connection that was there before may go without a word.
const STALE: u32 = 2;

/// Carries a request out; also the buffer that its head lies in.
pub(crate) async fn run(
    origin: &Origin,
    mut request: Source<'_, Downstream>,
    reply: Reply<'_>,
    forward: Forward,
    mut head: Vec<u8>,
    record: &mut RequestRecord,
) -> (After, Vec<u8>) {
    record.route = Some(Arc::clone(&forward.route));
    let exchange = Exchange { origin, reply, forward: &forward };
    match exchange.run(&mut request, &mut head, record).await {
        Ok(after) => (after, head),
        Err(status) => {
            record.status = status;
            let after = Box::pin(exchange.answer(status, &mut head)).await;
            (after, head)
        }
    }
}

struct Exchange<'a> {
    origin: &'a Origin,
    reply: Reply<'a>,
    forward: &'a Forward,
}

/// A connection to an endpoint.
struct Reached {
    server: Server,
    endpoint: Arc<Endpoint>,
    /// It carried requests before.
    reused: bool,
}

impl Exchange<'_> {
    /// Answers with a status, when the client has heard nothing yet.
    async fn answer(&self, status: u16, out: &mut Vec<u8>) -> After {
        out.clear();
        let mut ending = self.forward.ending;
        // What is left of the request's body is not waited for.
        ending.keep_alive &= !self.forward.has_body();
        write_error(out, status, self.forward.route.policies().pages.as_deref(), &[], ending);
        match self.reply.whole(out, self.origin.buffers()).await {
            Err(_) => After::Close(CloseReason::ClientReset),
            Ok(()) if ending.keep_alive => After::Next,
            Ok(()) => After::Linger(CloseReason::Finished),
        }
    }

    /// Tries until the client has an answer, or says with which status to answer.
    async fn run(
        &self,
        request: &mut Source<'_, Downstream>,
        head: &mut Vec<u8>,
        record: &mut RequestRecord,
    ) -> Result<After, u16> {
        let (route, worker) = (&self.forward.route, &self.origin.worker);
        let base = &route.base;
        let deadline = route.request_timeout.map(|limit| Instant::now() + limit);
        let mut place = self.forward.target;
        let mut cluster = Arc::clone(&self.forward.target().cluster);
        let mut state = cluster.state();
        let held = Held::within(Arc::clone(&cluster), state.settings.connection_limit);
        let mut held = Some(held.ok_or(503_u16)?);
        let client = self.forward.client;
        let has_body = self.forward.has_body();
        // Nobody but its endpoint would know what to do with the bytes of a tunnel.
        let mirrors = if self.forward.connects { &[] } else { &*route.mirrors };
        let copies = RefCell::new(Copies::begin(mirrors, head, self.forward, client, worker));
        if !has_body {
            copies.take().finish();
        }
        let mut tried = Vec::new();
        let (mut failed, mut refused) = (0, 0);
        let mut stale = 0;
        // Where nobody can be reached, those that come first say so.
        let mut first_failure = None;
        loop {
            record.cluster = Some(Arc::clone(&cluster));
            let reaching = self.reach(&cluster, &state, &mut tried, stale > 0, record);
            let reached = match deadline {
                Some(deadline) => {
                    let reached = timeout_at(deadline, reaching).await;
                    clock::wake();
                    reached.map_err(|_| 504_u16)?
                }
                None => reaching.await,
            };
            let Reached { server, endpoint, reused } = match (reached, route.after(place)) {
                (Ok(reached), _) => reached,
                (Err(status), None) => return Err(first_failure.unwrap_or(status)),
                // Nobody has seen the request yet.
                (Err(status), Some(next)) => {
                    first_failure.get_or_insert(status);
                    place = next;
                    cluster = Arc::clone(&route.targets[next].cluster);
                    state = cluster.state();
                    let next = Held::within(Arc::clone(&cluster), state.settings.connection_limit);
                    held = Some(next.ok_or(503_u16)?);
                    (tried, stale) = (Vec::new(), 0);
                    continue;
                }
            };
            record.endpoint = Some(Arc::clone(&endpoint));
            cluster.metrics.requests.inc();
            let entry = worker.connections.insert(Entry::new(
                self.origin.client.address,
                Arc::clone(&self.origin.table.borrow().listener),
                None,
                Held::new(Arc::clone(base)),
                held.take().unwrap_or_else(|| Held::new(Arc::clone(&cluster))),
                Held::new(Arc::clone(&endpoint)),
                state.settings.idle_limit,
            ));
            let retry = route.retry.as_ref().filter(|retry| !has_body && failed < retry.attempts);
            // What an endpoint has looked at is done again only where that makes no difference.
            let failing = retry.filter(|_| self.forward.is_idempotent);
            let failures = failing.map_or(&[][..], |retry| &retry.statuses[..]);
            let until = route.attempt_timeout.map(|limit| Instant::now() + limit);
            let until = until.into_iter().chain(deadline).min();
            let session = self.forward.session_with(&cluster, &endpoint);
            let attempt = Attempt {
                origin: self.origin,
                reply: self.reply,
                forward: self.forward,
                head: &*head,
                server: &server,
                entry: &entry,
                failures,
                session: &session,
                copies: &copies,
                so_far: SoFar::default(),
            };
            let heard = attempt.run(request, until).await;
            let SoFar { sent, taken, answered, keeps, status, began } = attempt.so_far;
            let (sent, taken, answered) = (sent.get(), taken.get(), answered.get());
            record.status = status.get();
            record.first_byte = began.get();
            let (up, down) = entry.bytes();
            record.bytes = (record.bytes.0 + up, record.bytes.1 + down);
            // Whether it is worth another try, with how long a pause before.
            let again = match heard {
                Heard::Answer { reusable } => {
                    drop(entry);
                    if let Server::H1(server) = server
                        && reusable
                        && state.settings.send_proxy_protocol.is_none()
                    {
                        worker.pool.give_back(&endpoint, server);
                    }
                    return Ok(if keeps.get() { After::Next } else { After::Linger(CloseReason::Finished) });
                }
                Heard::Tunnel(reason) => {
                    drop(entry);
                    return Ok(match (reason, server) {
                        (CloseReason::EndpointReset, _) => After::Reset(reason),
                        (CloseReason::ClientReset, Server::H1(server)) => {
                            server.into_socket().reset().await;
                            After::Close(reason)
                        }
                        _ => After::Close(reason),
                    });
                }
                Heard::ClientGone(reason) => {
                    record.status = 499;
                    return Ok(After::Close(reason));
                }
                Heard::BadBody(fault) if !answered => {
                    record.status = fault.status;
                    head.clear();
                    decision::refuse(head, fault);
                    return Ok(match Box::pin(self.reply.whole(head, self.origin.buffers())).await {
                        Ok(()) => After::Linger(CloseReason::InvalidRequest),
                        Err(_) => After::Close(CloseReason::ClientReset),
                    });
                }
                Heard::BadBody(_) => return Ok(After::Reset(CloseReason::InvalidRequest)),
                Heard::Cut => return Ok(After::Reset(CloseReason::EndpointReset)),
                Heard::Ended(reason) if answered => return Ok(After::Reset(reason)),
                Heard::Ended(CloseReason::IdleTimeout) => return Err(504),
                Heard::Ended(_) => return Err(503),
                Heard::TimedOut if answered => return Ok(After::Reset(CloseReason::IdleTimeout)),
                Heard::TimedOut => {
                    let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    if over || retry.is_none() || !self.forward.is_idempotent {
                        return Err(504);
                    }
                    Again::Later
                }
                Heard::Nonsense(why) => {
                    tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, why, "no proper answer");
                    return Err(502);
                }
                Heard::Failure => Again::Later,
                // Whatever the request is, nobody has seen it.
                Heard::Refused if !taken && refused < REFUSALS => {
                    refused += 1;
                    Again::AtOnce
                }
                // The endpoint closed a connection that waited, while the request was on its way: it never saw it, or
                // seeing it twice does no harm.
                Heard::Nothing
                    if reused && stale < STALE && !taken && (self.forward.is_idempotent || !sent) =>
                {
                    stale += 1;
                    Again::AtOnce
                }
                Heard::Nothing | Heard::Dropped | Heard::Refused => {
                    cluster.reset_early(&state, &endpoint);
                    if taken || retry.is_none() || !self.forward.is_idempotent {
                        return Err(502);
                    }
                    Again::Later
                }
            };
            drop(entry);
            if let (Again::Later, Some(retry)) = (again, &route.retry) {
                failed += 1;
                tried.push(endpoint);
                let until = Instant::now() + Backoff::new(retry.backoff, retry.backoff * 10).delay(failed);
                if deadline.is_some_and(|deadline| until >= deadline) {
                    return Err(504);
                }
                if let Some(reason) = Box::pin(self.rest(request, until)).await {
                    record.status = 499;
                    return Ok(After::Close(reason));
                }
                clock::wake();
            }
        }
    }

    /// Waits before another try; why that is in vain, if the client leaves meanwhile.
    async fn rest(&self, request: &mut Source<'_, Downstream>, until: Instant) -> Option<CloseReason> {
        let gone = poll_fn(|cx| self.reply.poll_gone(cx));
        tokio::select! {
            () = sleep_until(until) => None,
            reason = request.watch(self.origin.buffers()) => Some(reason),
            () = gone => Some(CloseReason::ClientReset),
        }
    }

    /// A connection to an endpoint: one that waits, or a new one. Nothing was sent yet, so a failure is tried again
    /// elsewhere.
    async fn reach(
        &self,
        cluster: &Cluster,
        state: &State,
        tried: &mut Vec<Arc<Endpoint>>,
        is_stale: bool,
        record: &mut RequestRecord,
    ) -> Result<Reached, u16> {
        let client = self.forward.client;
        let server_name = self.forward.server_name.as_deref();
        let came = self.forward.ending.version;
        let carries = if self.forward.connects {
            Carries::Bytes { server_name, speaks_first: false }
        } else {
            let version = reach::spoken(state.settings.http_version, came, self.forward.upgrades);
            Carries::Requests { server_name, version }
        };
        let worker = &self.origin.worker;
        let introduction = state.settings.send_proxy_protocol.map(|version| self.introduction(version));
        let mut failures = 0;
        let mut status = state.settings.no_endpoint_status;
        while failures <= state.settings.retries {
            let now = clock::woken();
            // Where the client stays comes first.
            let kept =
                self.forward.endpoint.clone().filter(|kept| !tried.iter().any(|t| Arc::ptr_eq(t, kept)));
            let picked = kept.or_else(|| cluster.pick(state, client, tried, now));
            // A single endpoint that failed once may do better the next time.
            let picked =
                picked.or_else(|| if failures == 0 { cluster.pick(state, client, &[], now) } else { None });
            let Some(endpoint) = picked else { break };
            record.attempts += 1;
            let limit = (!self.forward.is_idempotent).then_some(FRESH);
            let to = reach::To { cluster, state, endpoint: &endpoint, carries };
            if !is_stale
                && introduction.is_none()
                && let Some(server) = reach::pooled(worker, to, limit).await
            {
                return Ok(Reached { server, endpoint, reused: true });
            }
            // Boxed, so that requests do not carry the room that connecting takes: most find a connection.
            let unreached = match Box::pin(reach::connect(worker, to, introduction.as_deref())).await {
                Ok(Connected { server, how }) => {
                    endpoint.succeeded();
                    if matches!(how, How::Opened) {
                        endpoint.total.inc();
                        cluster.metrics.total.inc();
                    }
                    return Ok(Reached { server, endpoint, reused: matches!(how, How::Proven) });
                }
                Err(unreached) => unreached,
            };
            tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, %unreached, "connecting failed");
            status = unreached.status();
            if let Some(endpoint_to_blame) = unreached.blames_endpoint() {
                cluster.connect_failed(state, &endpoint, endpoint_to_blame);
            }
            failures += 1;
            tried.push(endpoint);
        }
        Err(status)
    }

    /// The PROXY protocol header that tells who the client is.
    fn introduction(&self, version: ProxyVersion) -> Vec<u8> {
        let client = self.origin.client.address;
        let asked = self.reply.local_address();
        let destination = asked.unwrap_or(self.origin.table.borrow().listener.address);
        match version {
            ProxyVersion::V1 => proxy_protocol::encode_v1(client, destination),
            ProxyVersion::V2 => proxy_protocol::encode_v2(client, destination),
        }
    }
}

/// How soon a request is tried again.
enum Again {
    AtOnce,
    Later,
}
