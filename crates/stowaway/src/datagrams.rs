//! Flows of datagrams between the ends, and the sockets that they are joined to. The end that accepts a flow says with its
//! first datagram that it is connected.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_link::{Flow, Incoming, Link, Settings, Sink, Unusable};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::refusal::Refusal;
use crate::request::{CONNECTED, no_answer};

thread_local! {
    /// The largest datagram fits; no flow has a buffer of its own.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; 64 << 10].into());
}

/// Datagrams of one flow that are passed on in one turn.
const AT_ONCE: usize = 32;
/// The pause before the first word is tried again on a link that is busy.
const AGAIN: Duration = Duration::from_millis(5);

/// Opens a flow; what comes after the other end's first word goes to `sink`. Fails at once if the link takes no more.
pub(crate) fn open(
    link: &Arc<Link>,
    request: &[u8],
    settings: Settings,
    sink: Sink,
) -> Result<Opening, Unusable> {
    let (word_tx, word) = oneshot::channel();
    let word_tx = Mutex::new(Some(word_tx));
    let heard = OnceLock::new();
    let first = move |datagram: &[u8]| {
        if heard.get().is_some() {
            return sink(datagram);
        }
        if datagram == [CONNECTED] && heard.set(()).is_ok() {
            // Whoever waited may have gone.
            let _ = lock(&word_tx).take().map(|word_tx| word_tx.send(()));
        }
    };
    let flow = link.open_flow(request, settings, Box::new(first))?;
    Ok(Opening { flow, word })
}

/// A flow of which the other end has not said yet whether it is connected.
pub(crate) struct Opening {
    flow: Flow,
    word: oneshot::Receiver<()>,
}

impl Opening {
    /// Waits for the other end's word.
    pub(crate) async fn connected(mut self, limit: Duration) -> io::Result<Flow> {
        let word = async {
            tokio::select! {
                biased;
                Ok(()) = &mut self.word => io::Result::Ok(()),
                reason = self.flow.over() => Err(match reason {
                    Some(reason) => Refusal::parse(&reason).into(),
                    None => io::ErrorKind::ConnectionReset.into(),
                }),
            }
        };
        timeout(limit, word).await.map_err(|_| no_answer(limit))??;
        Ok(self.flow)
    }
}

/// Takes a flow and joins it to a socket that is connected to where `target` says. What comes before that is lost: the other
/// end waits for the word. `place` is held for as long as the flow lasts.
pub(crate) fn accept<P: Send + 'static>(
    incoming: Incoming<'_>,
    settings: Settings,
    target: impl Future<Output = Result<SocketAddr, Refusal>> + Send + 'static,
    place: P,
) {
    let socket: Arc<OnceLock<Arc<UdpSocket>>> = Arc::default();
    let sending = socket.clone();
    let sink = Box::new(move |datagram: &[u8]| {
        if let Some(socket) = sending.get() {
            send_now(socket, datagram);
        }
    });
    let flow = incoming.accept_flow(settings, sink);
    tokio::spawn(async move {
        let connected = match target.await {
            Ok(target) => connect(target).map_err(|error| Refusal::of(target, &error)),
            Err(refusal) => Err(refusal),
        };
        match connected {
            Ok(connected) => {
                let connected = Arc::new(connected);
                if socket.set(connected.clone()).is_ok() && say(&flow).await {
                    answer(&flow, &connected).await;
                }
            }
            Err(refusal) => flow.refuse(refusal.to_string()),
        }
        drop(place);
    });
}

/// Says that it is connected; false if nobody is there to hear it.
async fn say(flow: &Flow) -> bool {
    while !flow.send(&[CONNECTED]) {
        if flow.is_over() {
            return false;
        }
        sleep(AGAIN).await;
    }
    true
}

/// Carries what the socket's peer answers until the flow ends: with the other end, with the link, or after a long silence.
pub(crate) async fn answer(flow: &Flow, socket: &UdpSocket) {
    loop {
        tokio::select! {
            readable = socket.readable() => {
                if readable.is_err() {
                    return;
                }
                // A refusal by the service is not the end: it may be about to start.
                let _ = pass_on(socket, |datagram| {
                    flow.send(datagram);
                });
            }
            _ = flow.over() => return,
        }
    }
}

/// Sends without waiting. The kernel is asked directly: the runtime does not know yet that a socket made a moment ago can be
/// written to. What the kernel does not take at once is lost, as datagrams are.
pub(crate) fn send_now(socket: &UdpSocket, datagram: &[u8]) {
    if send(socket, datagram, SendFlags::DONTWAIT) == Err(Errno::CONNREFUSED) {
        // The refusal is that of an earlier datagram, and this one has not been sent.
        let _ = send(socket, datagram, SendFlags::DONTWAIT);
    }
}

/// Passes on what has come, but no more than a few datagrams: others want their turn, too.
pub(crate) fn pass_on(socket: &UdpSocket, each: impl Fn(&[u8])) -> io::Result<()> {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..AT_ONCE {
            let count = socket.try_recv(buffer)?;
            each(&buffer[..count]);
        }
        Ok(())
    })
}

/// A socket for the datagrams of one flow.
pub(crate) fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
