//! One question to one resolver: by UDP from a port of its own, by TCP where that is cut or looks forged, by TLS where the
//! plan says so.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use thiserror::Error;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout, timeout_at};

use super::question::{Question, Sent};
use super::upstream::Upstream;
use crate::wire::reply::{Reply, Wrong};

/// Messages in place of a reply until another way is taken.
const STRANGERS: u32 = 16;

/// Why there is no reply.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("the resolver can't be reached")]
    Reach(#[source] io::Error),
    #[error("the resolver did not answer in time")]
    Timeout,
    #[error("the resolver closed the connection")]
    Closed,
    #[error("the resolver's TLS failed")]
    Tls(#[source] io::Error),
    #[error("the reply is broken")]
    Broken,
}

/// Asks, and learns from it how the resolver is.
///
/// # Errors
/// If there is no reply to this question.
pub(crate) async fn ask(upstream: &Upstream, question: &Question, limit: Duration) -> Result<Reply, Error> {
    let began = Instant::now();
    let reply = if upstream.is_tls() {
        by_stream(upstream, question.sent(false), limit).await
    } else {
        match by_datagram(upstream, question.sent(true), limit).await {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => by_stream(upstream, question.sent(false), limit).await,
            Err(error) => Err(error),
        }
    };
    match &reply {
        Ok(_) => upstream.answered(began.elapsed()),
        Err(error) => upstream.failed(error),
    }
    reply
}

/// `None` if it has to be asked by TCP.
pub(super) async fn by_datagram(
    upstream: &Upstream,
    sent: Sent,
    limit: Duration,
) -> Result<Option<Reply>, Error> {
    let any: SocketAddr = match upstream.address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await.map_err(Error::Reach)?;
    // The kernel drops what comes from elsewhere.
    socket.connect(upstream.address).await.map_err(Error::Reach)?;
    let deadline = Instant::now() + limit;
    let mut buffer = [0; 4096];
    let mut strangers = 0;
    // A datagram may be lost, so it is sent twice.
    for until in [deadline - limit / 2, deadline] {
        socket.send(&sent.packet).await.map_err(Error::Reach)?;
        while let Ok(received) = timeout_at(until, socket.recv(&mut buffer)).await {
            let length = received.map_err(Error::Reach)?;
            match Reply::read(&sent.packet, sent.question_end, &buffer[..length]) {
                Ok(reply) => return Ok(Some(reply)),
                Err(Wrong::Truncated) => return Ok(None),
                Err(Wrong::Broken) => return Err(Error::Broken),
                Err(Wrong::Case) => {
                    upstream.metrics.strangers.inc();
                    return Ok(None);
                }
                Err(Wrong::Stranger) => {
                    upstream.metrics.strangers.inc();
                    strangers += 1;
                    if strangers >= STRANGERS {
                        return Ok(None);
                    }
                }
            }
        }
    }
    // Perhaps somebody forges and has drowned the reply: TCP tells.
    if strangers > 0 { Ok(None) } else { Err(Error::Timeout) }
}

async fn by_stream(upstream: &Upstream, sent: Sent, limit: Duration) -> Result<Reply, Error> {
    let asked = async {
        // A connection that was kept may have been closed just now; a new one says more.
        match upstream.stream().ask(&sent.packet).await {
            Err(Error::Closed) => upstream.stream().ask(&sent.packet).await,
            other => other,
        }
    };
    let packet = timeout(limit, asked).await.map_err(|_| Error::Timeout)??;
    Reply::read(&sent.packet, sent.question_end, &packet).map_err(|_| Error::Broken)
}
