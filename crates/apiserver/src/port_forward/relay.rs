//! One connection to a port of a pod, and how what it says is put for the client.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::appetite::Appetite;
use super::outbox::{Gone, Outbox};
use super::spdy::{self, Status};
use super::{BUDGET, FAREWELL, Pod};

/// Smaller pieces are copied: a byte must not keep the buffer that it came in.
const WORTH_KEEPING: usize = 4 * 1024;
/// What a piece costs beside its bytes.
const OVERHEAD: usize = 64;

/// Bytes on their way to the pod.
struct Chunk {
    bytes: Bytes,
    _budget: OwnedSemaphorePermit,
}

/// The way to a connection; dropping it says that the client has said everything.
pub(super) struct Feed(mpsc::UnboundedSender<Chunk>);

/// Its other end.
pub(super) struct Fed(mpsc::UnboundedReceiver<Chunk>);

/// As much may wait in it as the session's budget allows.
pub(super) fn feed() -> (Feed, Fed) {
    let (chunks, fed) = mpsc::unbounded_channel(); // session → relay
    (Feed(chunks), Fed(fed))
}

impl Feed {
    /// Hands bytes to the connection; waits while too many are on their way. Those for one that is over are let go.
    pub(super) async fn send(&self, pod: &Pod, bytes: Bytes) {
        let bytes = if bytes.len() < WORTH_KEEPING { Bytes::copy_from_slice(&bytes) } else { bytes };
        let cost = (bytes.len() + OVERHEAD).min(BUDGET);
        if let Ok(budget) = pod.budget.clone().acquire_many_owned(cost as u32).await {
            let _ = self.0.send(Chunk { bytes, _budget: budget });
        }
    }
}

/// Where the client finds a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Errors are on the channel after it.
    Channel(u8),
    /// The streams for data and for errors.
    Streams { data: u32, error: u32 },
}

impl Lane {
    async fn say(self, outbox: &Outbox, bytes: Bytes) -> Result<(), Gone> {
        match self {
            Self::Channel(channel) => outbox.send(&[channel], bytes).await,
            Self::Streams { data, .. } => {
                outbox.send(&spdy::data_head(data, bytes.len(), false), bytes).await
            }
        }
    }

    /// The pod has said everything. A channel has no word for that: the end of the session is one.
    async fn end(self, outbox: &Outbox) -> Result<(), Gone> {
        let Self::Streams { data, error } = self else { return Ok(()) };
        finish(outbox, data).await?;
        // kubectl goes on with other things only when it knows that no error follows.
        finish(outbox, error).await
    }

    /// The connection broke. That is no error of forwarding: kubectl would give up all connections for it.
    async fn cut(self, outbox: &Outbox) -> Result<(), Gone> {
        let Self::Streams { data, error } = self else { return Ok(()) };
        outbox.send(&[], spdy::reset(data, Status::Cancel)).await?;
        finish(outbox, error).await
    }

    /// There is no connection, and why.
    async fn fail(self, outbox: &Outbox, why: String) -> Result<(), Gone> {
        match self {
            Self::Channel(channel) => outbox.send(&[channel + 1], why.into()).await,
            Self::Streams { data, error } => {
                outbox.send(&spdy::data_head(error, why.len(), true), why.into()).await?;
                outbox.send(&[], spdy::reset(data, Status::Cancel)).await
            }
        }
    }
}

/// Ends a stream in this direction.
pub(super) async fn finish(outbox: &Outbox, stream: u32) -> Result<(), Gone> {
    outbox.send(&spdy::data_head(stream, 0, true), Bytes::new()).await
}

/// Connects to the pod, and carries bytes until both have said everything; the lane that is free then.
pub(super) async fn run(pod: Pod, port: u16, lane: Lane, fed: Fed, outbox: Outbox) -> Lane {
    match pod.connect(port).await {
        Ok((stream, _place)) => carry(stream, lane, fed, &outbox).await,
        Err(why) => {
            tracing::debug!(pod = pod.target.name, namespace = pod.target.namespace, why);
            // If the client is gone nobody misses it.
            let _ = lane.fail(&outbox, why).await;
        }
    }
    lane
}

/// How the pod's side came to its end.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It has said everything, and may still listen.
    Said,
    /// The client does not listen any more, but what it said before is for the pod.
    Unheard,
    /// The connection broke.
    Broken,
}

async fn carry(stream: TcpStream, lane: Lane, fed: Fed, outbox: &Outbox) {
    let (from_pod, to_pod) = stream.into_split();
    let (over, is_over) = oneshot::channel();
    let mut up = pin!(write(fed, to_pod, is_over));
    let mut down = pin!(read(from_pod, lane, outbox));
    let mut is_fed = false;
    let ended = loop {
        tokio::select! {
            () = &mut up, if !is_fed => is_fed = true,
            ended = &mut down => break ended,
        }
    };
    match (ended, lane) {
        (Ended::Broken, _) => {}
        _ if is_fed => {}
        // A half that is closed stays closed, and the other one open.
        (Ended::Said, Lane::Streams { .. }) | (Ended::Unheard, _) => up.await,
        (Ended::Said, Lane::Channel(_)) => {
            let _ = over.send(());
            let _ = timeout(FAREWELL, up).await;
        }
    }
}

/// Writes to the pod what the client says, until that is everything or `is_over`.
async fn write(mut fed: Fed, mut to_pod: OwnedWriteHalf, mut is_over: oneshot::Receiver<()>) {
    let mut is_open = true;
    loop {
        let chunk = tokio::select! {
            chunk = fed.0.recv() => chunk,
            over = &mut is_over, if is_open => {
                is_open = false;
                if over.is_ok() {
                    fed.0.close();
                }
                continue;
            }
        };
        let Some(chunk) = chunk else { break };
        if to_pod.write_all(&chunk.bytes).await.is_err() {
            drop(chunk);
            // The pod listens no more. What the client goes on to say must not stand in the way of others.
            while fed.0.recv().await.is_some() {}
            return;
        }
    }
    // One that is gone has nothing to be told.
    let _ = to_pod.shutdown().await;
}

/// Sends to the client what the pod says.
async fn read(mut from_pod: OwnedReadHalf, lane: Lane, outbox: &Outbox) -> Ended {
    let (mut appetite, mut buffer) = (Appetite::default(), BytesMut::new());
    loop {
        let (said, ended) = match appetite.read(&mut from_pod, &mut buffer).await {
            Ok(0) => (lane.end(outbox).await, Some(Ended::Said)),
            Ok(_) => (lane.say(outbox, buffer.split().freeze()).await, None),
            Err(_) => {
                // If the client is gone nobody misses it.
                let _ = lane.cut(outbox).await;
                return Ended::Broken;
            }
        };
        match (said, ended) {
            (Err(Gone), _) => return Ended::Unheard,
            (Ok(()), Some(ended)) => return ended,
            (Ok(()), None) => {}
        }
    }
}

/// Lets connections whose feeds are gone come to their end, for a while.
pub(super) async fn finish_all(mut relays: JoinSet<Lane>) {
    let all = async { while relays.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, all).await;
}
