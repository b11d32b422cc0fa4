//! Carries bytes both ways after a change of protocol, where they can't go from socket to socket as they are.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use super::buffer::Buffers;
use super::sink::{Patience, Sink, carry};
use super::source::{Broken, Piece, Source};
use super::wire::Wire;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::connections::Entry;

/// One end of a tunnel: what it says and what it hears.
pub(crate) struct End<'a, 'b, W> {
    pub(crate) source: &'a mut Source<'b, W>,
    pub(crate) sink: Sink<'a, W>,
}

/// Carries bytes between a client and an endpoint until both have ended.
///
/// # Cancellation
/// Dropping the future loses what was read and not yet sent; the connection has to be closed.
pub(crate) async fn both<C: Wire, S: Wire>(
    client: End<'_, '_, C>,
    server: End<'_, '_, S>,
    entry: &Entry,
    buffers: &Buffers,
) -> CloseReason {
    let before = entry.bytes();
    let (up, down) = (Cell::new(before.0), Cell::new(before.1));
    let resets = (CloseReason::ClientReset, CloseReason::EndpointReset);
    let mut upward = pin!(one_way(client.source, server.sink, &up, resets, buffers));
    let mut downward = pin!(one_way(server.source, client.sink, &down, (resets.1, resets.0), buffers));
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
async fn one_way<S: Wire, D: Wire>(
    source: &mut Source<'_, S>,
    mut sink: Sink<'_, D>,
    count: &Cell<u64>,
    (source_reset, sink_reset): (CloseReason, CloseReason),
    buffers: &Buffers,
) -> Result<(), CloseReason> {
    let counted = |piece: &Piece<'_>| {
        count.set(count.get() + piece.as_slice().len() as u64);
        Ok(())
    };
    let carried = carry(source, &mut sink, buffers, Patience::default(), false, counted).await;
    carried.map_err(|broken| if matches!(broken, Broken::Sink) { sink_reset } else { source_reset })?;
    sink.end();
    Ok(())
}
