//! Where the body of a message comes from, whichever protocol it comes by.

use std::future::{pending, poll_fn};

use bytes::Bytes;
use http::HeaderMap;

use super::buffer::{Buffers, Inbox};
use super::fault::Fault;
use super::h1::framing::{Body, Framing};
use super::h2::{Inflow, head};
use super::wire::Wire;
use crate::close_reason::CloseReason;

/// A piece of a body.
pub(crate) enum Piece<'a> {
    Lent(&'a [u8]),
    Owned(Bytes),
}

impl Piece<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Lent(data) => data,
            Self::Owned(data) => data,
        }
    }

    /// The same for whoever keeps it.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match self {
            Self::Lent(data) => Bytes::copy_from_slice(data),
            Self::Owned(data) => data.clone(),
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Lent(data) => Bytes::copy_from_slice(data),
            Self::Owned(data) => data,
        }
    }
}

/// Why a body did not come to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Whoever sends it ended before it.
    Ended,
    Reset,
    Faulty(Fault),
    /// Whoever gets it takes no more.
    Sink,
}

/// A body on its way in.
pub(crate) enum Source<'a, W> {
    H1(Reading<'a, W>),
    H2(Inflow),
}

pub(crate) struct Reading<'a, W> {
    wire: &'a W,
    inbox: &'a mut Inbox,
    body: Body,
    /// The piece at hand: what stands before it in the inbox, and its end.
    piece: (usize, usize),
    /// It is of another protocol.
    tunnels: bool,
}

impl<'a, W: Wire> Source<'a, W> {
    pub(crate) fn h1(wire: &'a W, inbox: &'a mut Inbox, framing: Framing) -> Self {
        Self::H1(Reading { wire, inbox, body: Body::new(framing), piece: (0, 0), tunnels: false })
    }

    pub(crate) fn is_h2(&self) -> bool {
        matches!(self, Self::H2(_))
    }

    /// Keeps trailers that come in chunks; those of streams are kept anyway.
    pub(crate) fn keep_trailers(&mut self) {
        if let Self::H1(reading) = self {
            reading.body.keep_trailers();
        }
    }

    /// From here on everything up to the end belongs to another protocol.
    pub(crate) fn change_protocol(&mut self) {
        if let Self::H1(reading) = self {
            reading.body = Body::new(Framing::UntilClose);
            reading.tunnels = true;
        }
    }

    /// Whether a piece is at hand.
    pub(crate) fn ready(&mut self) -> Result<bool, Broken> {
        match self {
            Self::H1(reading) => reading.ready(),
            Self::H2(flow) => flow.ready().map_err(|_| Broken::Reset),
        }
    }

    /// The piece at hand, and whether it is known that nothing follows.
    pub(crate) fn piece(&mut self) -> (Piece<'_>, bool) {
        match self {
            Self::H1(Reading { inbox, body, piece: (start, end), .. }) => {
                (Piece::Lent(inbox.bytes().get(*start..*end).unwrap_or_default()), body.is_done())
            }
            Self::H2(flow) => {
                let piece = flow.take();
                (Piece::Owned(piece), flow.is_bare())
            }
        }
    }

    /// The piece was passed on.
    pub(crate) fn advance(&mut self) {
        match self {
            Self::H1(reading) => {
                reading.inbox.consume(reading.piece.1);
                reading.piece = (0, 0);
            }
            Self::H2(flow) => flow.advance(),
        }
    }

    /// Whether nothing follows what was passed on.
    pub(crate) fn is_over(&mut self) -> bool {
        match self {
            Self::H1(reading) => reading.body.is_done(),
            Self::H2(flow) => flow.is_over(),
        }
    }

    /// Waits for the next piece, or the end.
    pub(crate) async fn wait(&mut self, buffers: &Buffers) -> Result<(), Broken> {
        match self {
            Self::H1(reading) => {
                match poll_fn(|cx| reading.inbox.poll_fill(cx, reading.wire, buffers)).await {
                    // What takes over after a change of the protocol has its own word for its end.
                    Ok(0)
                        if reading.body.ends_with_connection()
                            && (reading.tunnels || !reading.wire.was_cut()) =>
                    {
                        reading.body = Body::new(Framing::None);
                        Ok(())
                    }
                    Ok(0) => Err(Broken::Ended),
                    Ok(_) => Ok(()),
                    Err(_) => Err(Broken::Reset),
                }
            }
            Self::H2(flow) => poll_fn(|cx| flow.poll(cx)).await.map_err(|_| Broken::Reset),
        }
    }

    /// Whether there is no body, and nothing after it.
    pub(crate) fn is_bare(&mut self) -> bool {
        match self {
            Self::H1(reading) => reading.body.is_done(),
            Self::H2(flow) => flow.is_bare(),
        }
    }

    /// What came after the body.
    pub(crate) fn trailers(&mut self) -> Option<HeaderMap> {
        match self {
            Self::H1(reading) => head::read_trailers(&reading.body.trailers()?),
            Self::H2(flow) => head::pass_trailers(flow.trailers()?),
        }
    }

    /// After the body of a request: waits until the client is gone. That of a stream is told elsewhere.
    pub(crate) async fn watch(&mut self, buffers: &Buffers) -> CloseReason {
        let Self::H1(reading) = self else { return pending().await };
        loop {
            // What follows the request waits for its turn, and so does a client that said all it had to say.
            if !reading.inbox.is_empty() {
                return pending().await;
            }
            match poll_fn(|cx| reading.inbox.poll_fill(cx, reading.wire, buffers)).await {
                Ok(0) => return pending().await,
                Ok(_) => {}
                Err(_) => return CloseReason::ClientReset,
            }
        }
    }

    /// What was read of what follows.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        match self {
            Self::H1(reading) => reading.inbox.take(),
            Self::H2(_) => Vec::new(),
        }
    }
}

impl<W> Reading<'_, W> {
    fn ready(&mut self) -> Result<bool, Broken> {
        while !self.body.is_done() && !self.inbox.is_empty() {
            let (count, data) = self.body.take(self.inbox.bytes()).map_err(Broken::Faulty)?;
            let data = data.len();
            if data > 0 {
                // The data are the last of what was taken.
                self.piece = (count - data, count);
                return Ok(true);
            }
            self.inbox.consume(count);
        }
        Ok(false)
    }
}
