//! Carries bytes both ways until both sides have ended. Small messages go through one buffer per thread; what the
//! other side can't take at once is kept in a buffer of its own; a stream that proves to be bulk goes through a
//! pipe with `splice` and never enters user space. An idle connection holds no buffer and no pipe. Where one side has TLS
//! that ends here, bytes go through the session instead.

mod half;
mod pipe;
mod sessions;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::task::Poll;

use crate::clock;
use crate::close_reason::CloseReason;
use crate::connections::Entry;
use crate::tcp::downstream::Downstream;
use crate::tcp::upstream::Upstream;
use crate::workspace::Workspace;
use half::{Half, Phase};
pub(crate) use pipe::Pipes;

/// Carries bytes between a client and an endpoint, which first gets `head`, until both have ended.
///
/// # Cancellation
/// Dropping the future loses what was read and not yet sent; the connection has to be closed.
pub(crate) async fn both(
    client: &Downstream,
    server: &Upstream,
    head: Vec<u8>,
    entry: &Entry,
    workspace: &Workspace,
) -> CloseReason {
    if matches!(client, Downstream::Tls(_)) || matches!(server, Upstream::Tls { .. }) {
        // Boxed, so that other connections do not carry the room it takes.
        return Box::pin(sessions::both(client, server, head, entry, &workspace.buffers)).await;
    }
    let mut up = Half::new(head, server.gathers());
    // What is accepted sends without delay, as its listener does.
    let mut down = Half::new(Vec::new(), false);
    let (client, server) = (client.socket(), server.socket());
    let mut kept_alive = false;
    let reason = poll_fn(|cx| {
        clock::wake();
        if let Some(reason) = entry.ending() {
            return Poll::Ready(reason);
        }
        entry.watch(cx.waker());
        let due = entry.take_due();
        if due && !kept_alive {
            kept_alive = true;
            let settings = &entry.cluster.state().settings;
            client.keep_alive(&settings.keepalive);
            server.keep_alive(&settings.keepalive);
        }
        let before = (up.bytes, down.bytes);
        let mut up_over = up.poll(cx, client, server, workspace, down.is_over()).is_ready();
        let mut down_over = down.poll(cx, server, client, workspace, up_over).is_ready();
        if up_over != down_over {
            entry.half_closed();
            if due {
                up_over = up_over || up.sink_is_gone(server);
                down_over = down_over || down.sink_is_gone(client);
            }
        }
        if (up.bytes, down.bytes) != before {
            entry.moved(up.bytes, down.bytes);
        }
        if up.phase == Phase::SourceReset {
            return Poll::Ready(CloseReason::ClientReset);
        }
        if down.phase == Phase::SourceReset {
            return Poll::Ready(CloseReason::EndpointReset);
        }
        if !(up_over && down_over) {
            return Poll::Pending;
        }
        // After a failed write the kernel reports a reset as a plain end to the reader.
        Poll::Ready(match (up.phase, down.phase) {
            (_, Phase::SinkReset) => CloseReason::ClientReset,
            (Phase::SinkReset, _) => CloseReason::EndpointReset,
            _ => CloseReason::Finished,
        })
    })
    .await;
    up.release_pipe(workspace);
    down.release_pipe(workspace);
    reason
}
