//! Carries bytes where a side has TLS that ends here: through a buffer for each direction, which an idle one does not hold.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::clock;
use crate::close_reason::CloseReason;
use crate::connections::Entry;
use crate::http::Buffers;
use crate::http::buffer::{Inbox, send};
use crate::http::wire::Wire;

/// Carries bytes between a client and an endpoint, which first gets `head`, until both have ended.
///
/// # Cancellation
/// Dropping the future loses what was read and not yet sent; the connection has to be closed.
pub(super) async fn both(
    client: &impl Wire,
    server: &impl Wire,
    head: Vec<u8>,
    entry: &Entry,
    buffers: &Buffers,
) -> CloseReason {
    let (up, down) = (Cell::new(0), Cell::new(0));
    let resets = (CloseReason::ClientReset, CloseReason::EndpointReset);
    let mut upward = pin!(one_way(client, server, head, &up, resets, buffers));
    let mut downward = pin!(one_way(server, client, Vec::new(), &down, (resets.1, resets.0), buffers));
    let mut over = [false; 2];
    poll_fn(|cx| {
        clock::wake();
        if let Some(reason) = entry.ending() {
            return Poll::Ready(reason);
        }
        entry.watch(cx.waker());
        let before = (up.get(), down.get());
        let polled = [
            if over[0] { Poll::Pending } else { upward.as_mut().poll(cx) },
            if over[1] { Poll::Pending } else { downward.as_mut().poll(cx) },
        ];
        if (up.get(), down.get()) != before {
            entry.moved(up.get(), down.get());
        }
        for (over, polled) in over.iter_mut().zip(polled) {
            match polled {
                Poll::Ready(Err(reason)) => return Poll::Ready(reason),
                Poll::Ready(Ok(())) => *over = true,
                Poll::Pending => {}
            }
        }
        if over == [true; 2] { Poll::Ready(CloseReason::Finished) } else { Poll::Pending }
    })
    .await
}

/// Carries bytes until the source ends; an error is a reset, of the source or of the sink.
async fn one_way(
    source: &impl Wire,
    sink: &impl Wire,
    first: Vec<u8>,
    count: &Cell<u64>,
    (source_reset, sink_reset): (CloseReason, CloseReason),
    buffers: &Buffers,
) -> Result<(), CloseReason> {
    let mut inbox = Inbox::new(first);
    loop {
        if !inbox.is_empty() {
            send(sink, inbox.bytes(), &[]).await.map_err(|_| sink_reset)?;
            count.set(count.get() + inbox.bytes().len() as u64);
            inbox.consume(inbox.bytes().len());
        }
        match poll_fn(|cx| inbox.poll_fill(cx, source, buffers)).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return Err(source_reset),
        }
    }
    inbox.release(buffers);
    sink.end();
    Ok(())
}
