//! A TCP stream's own task: reads from the socket into the link, and writes what the socket did not take at once.
//! It sleeps while the stream is idle and holds nothing then but the socket.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::net::TcpStream;

use crate::frame::{Frame, MAX_PAYLOAD};
use crate::mux::with_buffer;
use crate::socket;
use crate::stream::{self, Socket, Stream};

/// After so many reads others get their turn.
const ROUNDS: usize = 4;

/// Carries the stream until both directions have ended, then forgets it.
pub async fn run(stream: Arc<Stream>) {
    let Some(Socket::Tcp(socket)) = stream.socket() else { return };
    let mut sent_fin = false;
    poll_fn(|cx| poll(&stream, socket, &mut sent_fin, cx)).await;
    let broken = stream.inbound().broken;
    if let Some(side) = broken {
        if side == stream::Side::Here {
            stream.link.outbox.put(&Frame::Reset { stream: stream.id });
        }
        socket::reset_on_close(socket);
    }
    stream.link.remove(stream.id);
    stream.tally.open.fetch_sub(1, Relaxed);
}

/// Ready when the stream is over.
fn poll(stream: &Arc<Stream>, socket: &TcpStream, sent_fin: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
    // Before anything is looked at: what changes from here on wakes this task again.
    stream.register(cx.waker());
    let Ok(inbound_over) = poll_inbound(stream, socket, cx) else {
        stream.inbound().broken.get_or_insert(stream::Side::Here);
        return Poll::Ready(());
    };
    if stream.inbound().broken.is_some() {
        return Poll::Ready(());
    }
    if !*sent_fin {
        match poll_outbound(stream, socket, cx) {
            Poll::Ready(Ok(())) => *sent_fin = true,
            Poll::Ready(Err(_)) => {
                stream.inbound().broken.get_or_insert(stream::Side::Here);
                return Poll::Ready(());
            }
            Poll::Pending => {}
        }
    }
    if *sent_fin && inbound_over {
        return Poll::Ready(());
    }
    let mut inbound = stream.inbound();
    if inbound.lost && !(*sent_fin && inbound.fin) {
        inbound.broken.get_or_insert(stream::Side::There);
        return Poll::Ready(());
    }
    Poll::Pending
}

/// Writes what is kept; says whether this direction has ended.
fn poll_inbound(stream: &Stream, socket: &TcpStream, cx: &mut Context<'_>) -> io::Result<bool> {
    let mut inbound = stream.inbound();
    while !inbound.queue.is_empty() {
        match socket.poll_write_ready(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(ready) => ready?,
        }
        stream.flush(&mut inbound, socket)?;
    }
    if inbound.fin && !inbound.shut {
        inbound.shut = true;
        socket::end_writing(socket)?;
    }
    Ok(inbound.shut)
}

/// Reads from the socket into the link; ready when the socket has ended and the other end was told.
fn poll_outbound(stream: &Arc<Stream>, socket: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    for _ in 0..ROUNDS {
        let credit = stream.credit();
        if credit == 0 || !stream.link.outbox.has_room(stream) {
            return Poll::Pending;
        }
        match socket.poll_read_ready(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {}
        }
        let read = with_buffer(|buffer| {
            let count = socket.try_read(&mut buffer[..credit.min(MAX_PAYLOAD)])?;
            if count > 0 {
                stream.send(&buffer[..count]);
            }
            Ok(count)
        });
        match read {
            Ok(0) => {
                stream.link.outbox.put(&Frame::Fin { stream: stream.id });
                return Poll::Ready(Ok(()));
            }
            Ok(_) => {}
            Err(error) if io::Error::kind(&error) == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
