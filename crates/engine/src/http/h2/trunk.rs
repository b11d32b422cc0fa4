//! A connection of HTTP/2 to an endpoint, which carries many requests at a time. A task drives it until the endpoint ends
//! it, or nobody holds it any more; one that says nothing for long is asked whether it is still there.

use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use ::h2::{Error, Ping, SendStream};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::pipe::{Io, Pipe, Watch};
use super::{SEND_BUFFER, STREAM_WINDOW};
use crate::clock;
use crate::http::h1::HEAD;
use crate::tcp::Upstream;
use crate::worker::Worker;

/// Requests at a time, if the endpoint says nothing less. Their windows fit into that of the connection: one that nobody
/// reads stops no other.
const MOST: usize = 100;
/// Milliseconds that an endpoint with requests may say nothing before it is asked, and until it has to answer.
const QUIET: u64 = 10_000;
const ANSWER: u64 = 5_000;
/// How long an answer is waited for before a request is sent that can't be sent twice.
const PROMPT: Duration = Duration::from_secs(1);

/// Whether the other end lives, shared with the task that drives the connection.
#[derive(Default)]
pub(crate) struct Pulse {
    /// When something came last.
    heard: Cell<u64>,
    /// What it says was taken in since it was last looked how many requests it takes.
    says_more: Cell<bool>,
    /// It said something, and that was understood: its settings are the first that it says.
    spoke: Cell<bool>,
    greeted: Cell<bool>,
    /// When it was asked whether it is there; 0 if that is settled.
    asked: Cell<u64>,
    /// Nothing more comes of it.
    over: Cell<bool>,
    /// Has to end, whatever is under way.
    condemned: Cell<bool>,
    driver: RefCell<Option<Waker>>,
    news: Notify,
}

impl Pulse {
    /// Something came.
    pub(crate) fn heard(&self, now: u64) {
        self.heard.set(now);
        self.spoke.set(true);
    }

    fn ask(&self, now: u64) {
        if self.asked.get() == 0 {
            self.asked.set(now.max(1));
            self.wake();
        }
    }

    fn settle(&self) {
        self.asked.set(0);
        self.news.notify_waiters();
    }

    fn wake(&self) {
        if let Some(driver) = self.driver.borrow().as_ref() {
            driver.wake_by_ref();
        }
    }

    fn watch(&self, waker: &Waker) {
        let mut driver = self.driver.borrow_mut();
        if !driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            *driver = Some(waker.clone());
        }
    }
}

/// A connection that takes requests.
pub(crate) struct Trunk {
    requests: RefCell<SendRequest<Bytes>>,
    pulse: Rc<Pulse>,
    /// Requests under way.
    open: Cell<usize>,
    /// Since when there are none.
    idle: Cell<u64>,
    /// Requests that it takes at a time.
    most: Cell<usize>,
    /// An answer came.
    proven: Cell<bool>,
    /// With TLS below.
    secure: bool,
    /// The name that the endpoint has shown, if that depends on the request.
    server_name: Option<Box<str>>,
}

impl Trunk {
    /// Begins HTTP/2 on a connection.
    ///
    /// # Errors
    /// If the endpoint closes it at once.
    pub(crate) async fn open(upstream: Upstream, secure: bool, worker: &Rc<Worker>) -> io::Result<Rc<Self>> {
        let pulse = Rc::new(Pulse::default());
        pulse.heard.set(clock::woken());
        let server_name = upstream.server_name().map(Box::from);
        let pipe = Pipe::new(upstream, Watch::Endpoint(Rc::clone(&pulse)), worker);
        let io = Io::new(&pipe, Vec::new());
        let shaken = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * MOST as u32)
            .initial_max_send_streams(MOST)
            .max_header_list_size(HEAD as u32)
            .max_send_buffer_size(SEND_BUFFER)
            .handshake(io)
            .await;
        let (requests, connection) = shaken.map_err(io::Error::other)?;
        spawn_local(drive(connection, pipe, Rc::clone(&pulse)));
        Ok(Rc::new(Self {
            requests: RefCell::new(requests),
            pulse,
            open: Cell::new(0),
            idle: Cell::new(clock::woken()),
            most: Cell::new(MOST),
            proven: Cell::new(false),
            secure,
            server_name,
        }))
    }

    pub(crate) fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Whether it still takes requests.
    pub(crate) fn is_open(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        !self.pulse.over.get()
            && !matches!(self.requests.borrow_mut().poll_ready(&mut cx), Poll::Ready(Err(_)))
    }

    /// A place for one more request, if there is room.
    pub(crate) fn share(self: &Rc<Self>) -> Option<Share> {
        if self.pulse.says_more.replace(false) {
            self.most.set(self.requests.borrow().current_max_send_streams().min(MOST));
        }
        let most = self.most.get();
        if self.open.get() >= most || !self.is_open() {
            return None;
        }
        self.open.set(self.open.get() + 1);
        Some(Share { trunk: Rc::clone(self) })
    }

    /// Milliseconds without a request; nothing while there is one.
    pub(crate) fn idle_for(&self, now: u64) -> Option<u64> {
        (self.open.get() == 0).then(|| now.saturating_sub(self.idle.get()))
    }

    /// Asks an endpoint that says nothing to its requests whether it is there, and gives up one that does not answer.
    pub(crate) fn examine(&self, now: u64) {
        let asked = self.pulse.asked.get();
        if asked > 0 && now.saturating_sub(asked) > ANSWER {
            tracing::debug!("an endpoint does not answer any more");
            self.condemn();
        } else if self.open.get() > 0 && now.saturating_sub(self.pulse.heard.get()) > QUIET {
            self.pulse.ask(now);
        }
    }

    fn condemn(&self) {
        self.pulse.condemned.set(true);
        self.pulse.over.set(true);
        self.pulse.wake();
    }
}

/// One request's place on a trunk.
pub(crate) struct Share {
    trunk: Rc<Trunk>,
}

impl Share {
    pub(crate) fn secure(&self) -> bool {
        self.trunk.secure
    }

    /// Notes that an answer came.
    pub(crate) fn proved(&self) {
        self.trunk.proven.set(true);
    }

    /// Whether any answer ever came on the connection.
    pub(crate) fn is_proven(&self) -> bool {
        self.trunk.proven.get()
    }

    /// Whether the endpoint knows WebSocket in streams; it says so with its settings.
    pub(crate) async fn takes_websockets(&self) -> bool {
        let pulse = &self.trunk.pulse;
        let news = pulse.news.notified();
        if !pulse.greeted.get() {
            // Who says nothing has none.
            let _ = timeout(PROMPT, news).await;
            clock::wake();
        }
        self.trunk.requests.borrow().is_extended_connect_protocol_enabled()
    }

    /// Sends the head of a request; `ended`: nothing follows.
    ///
    /// # Errors
    /// If the connection takes no more: then nothing was sent.
    pub(crate) fn send(
        &self,
        head: http::Request<()>,
        ended: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Error> {
        // A handle of its own, since each may have one stream that waits to be opened: who asks that handle later whether it is
        // ready takes the place of the stream's own body, which is then never told that it may go on.
        let mut requests = self.trunk.requests.borrow().clone();
        requests.send_request(head, ended)
    }

    /// Whether the endpoint is there: it said something in the last `limit` milliseconds, or does when asked.
    pub(crate) async fn is_alive(&self, limit: u64) -> bool {
        let pulse = &self.trunk.pulse;
        if clock::woken().saturating_sub(pulse.heard.get()) <= limit {
            return true;
        }
        let news = pulse.news.notified();
        pulse.ask(clock::woken());
        let heard = timeout(PROMPT, news).await.is_ok();
        clock::wake();
        if !heard {
            self.trunk.condemn();
        }
        heard && self.trunk.is_open()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let open = self.trunk.open.get() - 1;
        self.trunk.open.set(open);
        if open == 0 {
            self.trunk.idle.set(clock::woken());
        }
    }
}

/// Drives a connection to its end.
async fn drive(mut connection: Connection<Io<Upstream>, Bytes>, pipe: Rc<Pipe<Upstream>>, pulse: Rc<Pulse>) {
    let mut pings = connection.ping_pong();
    let mut under_way = false;
    poll_fn(|cx| {
        clock::wake();
        pulse.watch(cx.waker());
        if pulse.condemned.get() {
            return Poll::Ready(());
        }
        if let Some(pings) = &mut pings {
            if pulse.asked.get() > 0 && !under_way {
                under_way = pings.send_ping(Ping::opaque()).is_ok();
            }
            if under_way && pings.poll_pong(cx).is_ready() {
                under_way = false;
                pulse.settle();
            }
        }
        let polled = Pin::new(&mut connection).poll(cx);
        pulse.says_more.set(true);
        if under_way
            && let Some(pings) = &mut pings
            && pings.poll_pong(cx).is_ready()
        {
            under_way = false;
            pulse.settle();
        }
        if polled.is_ready() {
            return Poll::Ready(());
        }
        if pulse.spoke.get() && !pulse.greeted.replace(true) {
            pulse.news.notify_waiters();
        }
        match pipe.poll_drain(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    pulse.over.set(true);
    pulse.news.notify_waiters();
}
