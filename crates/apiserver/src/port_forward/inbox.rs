//! What comes from the client, in pieces: as it is, or out of the messages of a WebSocket.

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncRead;

use super::appetite::Appetite;
use super::outbox::Outbox;
use super::websocket::{Decoder, Event};
use super::{Violation, Wire};

/// A part of what the client says.
#[derive(Debug)]
pub(super) struct Piece {
    pub bytes: Bytes,
    /// A message begins with it.
    pub first: bool,
}

pub(super) struct Inbox<R> {
    io: R,
    appetite: Appetite,
    input: BytesMut,
    /// There if the connection is a WebSocket.
    frames: Option<Decoder>,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    pub(super) fn new(io: R, wire: Wire) -> Self {
        let frames = (wire == Wire::WebSocket).then(Decoder::default);
        Self { io, appetite: Appetite::default(), input: BytesMut::new(), frames }
    }

    /// The next piece; none when the client has said everything or is gone.
    ///
    /// # Cancellation
    /// Nothing is lost.
    pub(super) async fn next(&mut self, outbox: &Outbox) -> Result<Option<Piece>, Violation> {
        loop {
            match &mut self.frames {
                None if !self.input.is_empty() => {
                    return Ok(Some(Piece { bytes: self.input.split().freeze(), first: false }));
                }
                None => {}
                Some(frames) => match frames.next(&mut self.input)? {
                    Some(Event::Piece { bytes, first }) => return Ok(Some(Piece { bytes, first })),
                    Some(Event::Ping(payload)) => {
                        outbox.pong(payload);
                        continue;
                    }
                    Some(Event::Pong) => continue,
                    Some(Event::Close) => return Ok(None),
                    None => {}
                },
            }
            if !self.fill().await {
                return Ok(None);
            }
        }
    }

    /// Reads what still comes, for nobody.
    pub(super) async fn drain(&mut self) {
        loop {
            self.input.clear();
            if !self.fill().await {
                return;
            }
        }
    }

    /// False when nothing more comes.
    async fn fill(&mut self) -> bool {
        matches!(self.appetite.read(&mut self.io, &mut self.input).await, Ok(1..))
    }
}
