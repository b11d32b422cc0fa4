//! The data of one stream, each way. Nobody is asked for more than has been passed on, and nothing is sent that the peer
//! has no room for.

use std::io;
use std::task::{Context, Poll, Waker, ready};

use ::h2::server::SendResponse;
use ::h2::{Error, Reason, RecvStream, SendStream};
use bytes::Bytes;
use http::{HeaderMap, Response};

/// What comes.
pub(crate) struct Inflow {
    stream: RecvStream,
    held: Option<Bytes>,
    /// Of the piece that was lent last.
    lent: usize,
    over: bool,
    trailers: Option<HeaderMap>,
}

impl Inflow {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream, held: None, lent: 0, over: false, trailers: None }
    }

    /// Whether a piece is at hand.
    pub(crate) fn ready(&mut self) -> Result<bool, Error> {
        // Whoever waits polls again with a waker of their own.
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(self.held.is_some()),
        }
    }

    /// Waits for a piece or the end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.held.is_none() && !self.over {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => self.held = Some(data),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    self.trailers = ready!(self.stream.poll_trailers(cx))?;
                    self.over = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The piece at hand.
    pub(crate) fn take(&mut self) -> Bytes {
        let data = self.held.take().unwrap_or_default();
        self.lent = data.len();
        data
    }

    /// The piece was passed on: there is room for more.
    pub(crate) fn advance(&mut self) {
        // Fails only if the stream is gone, which the next poll tells.
        let _ = self.stream.flow_control().release_capacity(std::mem::take(&mut self.lent));
    }

    /// Whether everything has come and was taken. A stream that was given up is not over: the next poll says so.
    pub(crate) fn is_over(&mut self) -> bool {
        // Says the same of one that was given up, at the price of a look.
        if !self.over && self.held.is_none() && self.stream.is_end_stream() {
            let _ = self.ready();
        }
        self.over
    }

    /// The same, and no trailers follow.
    pub(crate) fn is_bare(&mut self) -> bool {
        self.is_over() && self.trailers.is_none()
    }

    pub(crate) fn trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}

/// What goes.
pub(crate) struct Outflow {
    state: State,
    ended: bool,
}

enum State {
    /// Before the head of the answer.
    Awaiting(SendResponse<Bytes>),
    Streaming(SendStream<Bytes>),
    Gone,
}

impl Outflow {
    /// To a client.
    pub(crate) fn answering(respond: SendResponse<Bytes>) -> Self {
        Self { state: State::Awaiting(respond), ended: false }
    }

    /// To an endpoint, after the head of a request; `ended`: nothing follows.
    pub(crate) fn asking(stream: SendStream<Bytes>, ended: bool) -> Self {
        Self { state: State::Streaming(stream), ended }
    }

    /// Sends a head before the one that counts.
    pub(crate) fn interim(&mut self, head: Response<()>) -> io::Result<()> {
        match &mut self.state {
            State::Awaiting(respond) => respond.send_informational(head).map_err(gone),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends the head of an answer; `ended`: nothing follows.
    pub(crate) fn begin(&mut self, head: Response<()>, ended: bool) -> io::Result<()> {
        let State::Awaiting(mut respond) = std::mem::replace(&mut self.state, State::Gone) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        self.state = State::Streaming(respond.send_response(head, ended).map_err(gone)?);
        self.ended = ended;
        Ok(())
    }

    /// Sends data as the peer has room for them; `last`: nothing follows.
    pub(crate) fn poll_push(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut Bytes,
        last: bool,
    ) -> Poll<io::Result<()>> {
        let State::Streaming(stream) = &mut self.state else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        while !data.is_empty() {
            stream.reserve_capacity(data.len());
            let room = match stream.capacity() {
                0 => match ready!(stream.poll_capacity(cx)) {
                    Some(Ok(room)) => room,
                    Some(Err(error)) => return Poll::Ready(Err(gone(error))),
                    None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                },
                room => room,
            };
            let piece = data.split_to(room.min(data.len()));
            self.ended = last && data.is_empty();
            stream.send_data(piece, self.ended).map_err(gone)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends this side.
    pub(crate) fn finish(&mut self, trailers: Option<HeaderMap>) -> io::Result<()> {
        let State::Streaming(stream) = &mut self.state else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        match trailers {
            Some(trailers) => stream.send_trailers(trailers).map_err(gone),
            None => stream.send_data(Bytes::new(), true).map_err(gone),
        }
    }

    /// Waits until the peer has given the stream up.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Awaiting(respond) => respond.poll_reset(cx).map(drop),
            State::Streaming(_) if self.ended => Poll::Pending,
            State::Streaming(stream) => stream.poll_reset(cx).map(drop),
            State::Gone => Poll::Ready(()),
        }
    }

    /// Gives the stream up, so that nobody takes what was sent for the whole.
    pub(crate) fn reset(&mut self, reason: Reason) {
        match &mut self.state {
            State::Awaiting(respond) => respond.send_reset(reason),
            State::Streaming(stream) => stream.send_reset(reason),
            State::Gone => {}
        }
    }
}

fn gone(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}
