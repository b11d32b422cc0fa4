//! What goes to the client: one bounded queue for all who have something to say to it, and one writer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use causeway_base::backoff::spread;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{Wire, spdy, websocket};

/// Messages that wait for the client, of at most [`super::CHUNK`] each.
const QUEUE: usize = 16;
/// So much is put together before it is written.
const FULL: usize = 64 * 1024;
/// Nothing was said for so long: is the client still there? An answer is not waited for, but writing to somebody who left
/// fails in the end.
const PING: Duration = Duration::from_secs(30);
/// How a WebSocket says that all is well, and that the client broke the rules.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
/// Even, as a server's is.
const PING_NUMBER: u32 = 2;

#[derive(Debug)]
enum Message {
    /// Head and body.
    Payload(Head, Bytes),
    /// Must reach the client in one piece: Go's SPDY takes headers that come in two for broken ones.
    Alone(Bytes),
    Pong(Bytes),
}

/// A few bytes before others.
#[derive(Debug, Clone, Copy)]
struct Head {
    bytes: [u8; 8],
    length: usize,
}

/// A way to the client.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    messages: mpsc::Sender<Message>,
    close_code: Arc<AtomicU16>,
}

/// The other end of it.
pub(super) struct Queue {
    wire: Wire,
    messages: mpsc::Receiver<Message>,
    close_code: Arc<AtomicU16>,
}

/// The client is gone.
#[derive(Debug)]
pub(super) struct Gone;

pub(super) fn queue(wire: Wire) -> (Outbox, Queue) {
    let (messages, receiver) = mpsc::channel(QUEUE); // sessions and relays → the writer
    let close_code = Arc::new(AtomicU16::new(NORMAL));
    (Outbox { messages, close_code: close_code.clone() }, Queue { wire, messages: receiver, close_code })
}

impl Outbox {
    /// Sends a message of a head of at most 8 bytes and a body.
    pub(super) async fn send(&self, head: &[u8], body: Bytes) -> Result<(), Gone> {
        let mut bytes = [0; 8];
        let length = head.len().min(bytes.len());
        bytes.iter_mut().zip(head).for_each(|(to, from)| *to = *from);
        self.put(Message::Payload(Head { bytes, length }, body)).await
    }

    /// Sends a message that reaches the client in one piece.
    pub(super) async fn send_alone(&self, message: Bytes) -> Result<(), Gone> {
        self.put(Message::Alone(message)).await
    }

    /// Answers a ping, unless there is so much to be said that the client knows anyway.
    pub(super) fn pong(&self, payload: Bytes) {
        let _ = self.messages.try_send(Message::Pong(payload));
    }

    /// The client broke the rules, and will be told so at the end.
    pub(super) fn complain(&self) {
        self.close_code.store(PROTOCOL_ERROR, Ordering::Relaxed);
    }

    async fn put(&self, message: Message) -> Result<(), Gone> {
        self.messages.send(message).await.map_err(|_| Gone)
    }
}

impl Queue {
    /// Writes until everybody has said everything, or the client is gone.
    pub(super) async fn write(mut self, io: impl AsyncWrite) {
        let mut io = std::pin::pin!(io);
        // That the client is gone is no news: the end of this says it.
        if self.write_messages(&mut io).await.is_ok() {
            let _ = io.shutdown().await;
        }
    }

    async fn write_messages(&mut self, io: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut out = BytesMut::new();
        loop {
            // One that waits holds nothing.
            if self.messages.is_empty() {
                out = BytesMut::new();
            }
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => self.encode(message, &mut out, io).await?,
                    None => break,
                },
                () = tokio::time::sleep(spread(PING)) => self.ping(&mut out),
            }
            while out.len() < FULL
                && let Ok(message) = self.messages.try_recv()
            {
                self.encode(message, &mut out, io).await?;
            }
            io.write_all(&out).await?;
            out.clear();
            if self.messages.is_empty() {
                io.flush().await?;
            }
        }
        if self.wire == Wire::WebSocket {
            websocket::close(self.close_code.load(Ordering::Relaxed), &mut out);
            io.write_all(&out).await?;
        }
        io.flush().await
    }

    async fn encode(
        &self,
        message: Message,
        out: &mut BytesMut,
        io: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        match message {
            Message::Payload(head, body) => {
                let head = head.bytes.get(..head.length).unwrap_or_default();
                self.begin(head.len() + body.len(), out);
                out.put_slice(head);
                out.put_slice(&body);
            }
            Message::Alone(bytes) => {
                if !out.is_empty() {
                    io.write_all(out).await?;
                    io.flush().await?;
                    out.clear();
                }
                self.begin(bytes.len(), out);
                out.put_slice(&bytes);
                io.write_all(out).await?;
                io.flush().await?;
                out.clear();
            }
            Message::Pong(payload) => websocket::pong(&payload, out),
        }
        Ok(())
    }

    fn begin(&self, length: usize, out: &mut BytesMut) {
        if self.wire == Wire::WebSocket {
            websocket::message_head(length, out);
        }
    }

    fn ping(&self, out: &mut BytesMut) {
        match self.wire {
            Wire::WebSocket => websocket::ping(out),
            Wire::Plain => out.put_slice(&spdy::ping(PING_NUMBER)),
        }
    }
}
