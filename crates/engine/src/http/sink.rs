//! Where the body of a message goes, whichever protocol it goes by; and carrying one there.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::timeout;

use super::buffer::{Buffers, send};
use super::fault::Fault;
use super::h1::chunked;
use super::h1::framing::Framing;
use super::h2::Outflow;
use super::source::{Broken, Piece, Source};
use super::wire::Wire;

/// Data up to here are gathered with what is around them, more is sent from where it lies.
const SMALL: usize = 4 << 10;
/// What is gathered before it is sent.
const GATHERED: usize = 16 << 10;

/// A body on its way out.
pub(crate) enum Sink<'a, W> {
    H1(Writing<'a, W>),
    H2(&'a RefCell<Outflow>),
}

pub(crate) struct Writing<'a, W> {
    wire: &'a W,
    /// What was gathered: at first the head.
    out: Vec<u8>,
    framing: Framing,
    /// A chunk was begun.
    begun: bool,
}

impl<'a, W: Wire> Sink<'a, W> {
    /// `out` goes before everything.
    pub(crate) fn h1(wire: &'a W, out: Vec<u8>, framing: Framing) -> Self {
        Self::H1(Writing { wire, out, framing, begun: false })
    }

    pub(crate) fn is_h2(&self) -> bool {
        matches!(self, Self::H2(_))
    }

    /// Takes a piece; `last`: nothing follows.
    pub(crate) async fn push(&mut self, piece: Piece<'_>, last: bool) -> io::Result<()> {
        match self {
            Self::H1(writing) => writing.push(piece.as_slice()).await,
            Self::H2(flow) => {
                let mut data = piece.into_bytes();
                poll_fn(|cx| flow.borrow_mut().poll_push(cx, &mut data, last)).await
            }
        }
    }

    /// Sends what was gathered.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::H1(writing) => writing.flush().await,
            Self::H2(_) => Ok(()),
        }
    }

    /// Ends the body.
    pub(crate) async fn finish(&mut self, trailers: Option<HeaderMap>) -> io::Result<()> {
        match self {
            Self::H1(writing) => {
                writing.end_chunks(trailers);
                writing.flush().await
            }
            Self::H2(flow) => flow.borrow_mut().finish(trailers),
        }
    }

    /// Tells the peer that nothing comes on this connection any more; a stream's end says it already.
    pub(crate) fn end(&self) {
        if let Self::H1(writing) = self {
            writing.wire.end();
        }
    }

    /// Gives what it wrote into back.
    pub(crate) fn release(self, buffers: &Buffers) {
        if let Self::H1(writing) = self {
            buffers.give_back_head(writing.out);
        }
    }
}

impl<W: Wire> Writing<'_, W> {
    async fn push(&mut self, data: &[u8]) -> io::Result<()> {
        if self.framing == Framing::Chunked && !data.is_empty() {
            if std::mem::replace(&mut self.begun, true) {
                self.out.extend_from_slice(b"\r\n");
            }
            chunked::write_size(&mut self.out, data.len());
        }
        if data.len() <= SMALL && self.out.len() < GATHERED {
            self.out.extend_from_slice(data);
            return Ok(());
        }
        send(self.wire, &self.out, data).await?;
        self.out.clear();
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            send(self.wire, &self.out, &[]).await?;
            self.out.clear();
        }
        Ok(())
    }

    fn end_chunks(&mut self, trailers: Option<HeaderMap>) {
        if self.framing != Framing::Chunked {
            return;
        }
        if self.begun {
            self.out.extend_from_slice(b"\r\n");
        }
        let Some(trailers) = trailers else {
            self.out.extend_from_slice(chunked::LAST);
            return;
        };
        self.out.extend_from_slice(b"0\r\n");
        super::h2::head::write_lines(&mut self.out, &trailers);
    }
}

/// How long is waited for either side at a time.
#[derive(Default, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) source: Option<Duration>,
    pub(crate) sink: Option<Duration>,
}

/// Carries a body to its end; `passes` sees each piece before it goes on, `trailers`: what comes after the body goes on,
/// too.
///
/// # Cancellation
/// Dropping the future leaves it open how much was passed on; neither side can be used further.
pub(crate) async fn carry<S: Wire, D: Wire>(
    source: &mut Source<'_, S>,
    sink: &mut Sink<'_, D>,
    buffers: &Buffers,
    patience: Patience,
    trailers: bool,
    mut passes: impl FnMut(&Piece<'_>) -> Result<(), Fault>,
) -> Result<(), Broken> {
    let gone = |_: io::Error| Broken::Sink;
    loop {
        if source.ready()? {
            let (piece, last) = source.piece();
            passes(&piece).map_err(Broken::Faulty)?;
            within(patience.sink, sink.push(piece, last)).await.map_err(gone)?;
            source.advance();
        } else if source.is_over() {
            break;
        } else {
            within(patience.sink, sink.flush()).await.map_err(gone)?;
            let waiting = source.wait(buffers);
            match patience.source {
                None => waiting.await?,
                Some(limit) => match timeout(limit, waiting).await {
                    Ok(waited) => waited?,
                    Err(_) => return Err(Broken::Faulty(Fault::new(408, "the body came too slowly"))),
                },
            }
        }
    }
    let after = if trailers { source.trailers() } else { None };
    within(patience.sink, sink.finish(after)).await.map_err(gone)
}

async fn within(limit: Option<Duration>, work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    match limit {
        None => work.await,
        Some(limit) => timeout(limit, work).await?,
    }
}
