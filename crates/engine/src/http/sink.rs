//! Where the body of a message goes, whichever protocol it goes by; and carrying one there.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::sleep;

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
            within(patience.sink, pin!(sink.push(piece, last))).await.map_err(gone)?;
            source.advance();
        } else if source.is_over() {
            break;
        } else {
            within(patience.sink, pin!(sink.flush())).await.map_err(gone)?;
            let waiting = pin!(source.wait(buffers));
            match patience.source {
                None => waiting.await?,
                Some(limit) => match in_time(limit, waiting).await {
                    Ok(waited) => waited?,
                    Err(_) => return Err(Broken::Faulty(Fault::new(408, "the body came too slowly"))),
                },
            }
        }
    }
    let after = if trailers { source.trailers() } else { None };
    within(patience.sink, pin!(sink.finish(after))).await.map_err(gone)
}

async fn within(
    limit: Option<Duration>,
    work: Pin<&mut impl Future<Output = io::Result<()>>>,
) -> io::Result<()> {
    match limit {
        None => work.await,
        Some(limit) => in_time(limit, work).await?,
    }
}

/// Waits for work, but not for ever. Most work is done at once: a timer is made, with the room that it takes, only for what is
/// not.
///
/// # Errors
/// If it takes too long.
pub(crate) async fn in_time<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> io::Result<T> {
    let mut timer = None;
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::task::Context;

    use tokio::time::{Instant, Sleep};

    use super::*;
    use crate::http::buffer::Inbox;
    use crate::tcp::Received;

    /// A wire on which a byte moves at a time, each after a pause; or none ever.
    struct Paced {
        pause: Option<Duration>,
        next: RefCell<Option<Pin<Box<Sleep>>>>,
        may_move: Cell<bool>,
        sent: RefCell<Vec<u8>>,
    }

    impl Paced {
        fn new(pause: Option<Duration>) -> Self {
            Self { pause, next: RefCell::default(), may_move: Cell::default(), sent: RefCell::default() }
        }

        fn poll_pause(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let Some(pause) = self.pause else { return Poll::Pending };
            if !self.may_move.get() {
                let mut next = self.next.borrow_mut();
                std::task::ready!(next.get_or_insert_with(|| Box::pin(sleep(pause))).as_mut().poll(cx));
                *next = None;
                self.may_move.set(true);
            }
            Poll::Ready(Ok(()))
        }
    }

    impl Wire for Paced {
        fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_pause(cx)
        }

        fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<Received>> {
            std::task::ready!(self.poll_pause(cx))?;
            self.may_move.set(false);
            buffer[0] = b'x';
            Poll::Ready(Ok(Received { count: 1, ended: false }))
        }

        fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
            if !self.may_move.replace(false) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.sent.borrow_mut().extend(first.iter().chain(second).take(1));
            Ok(1)
        }

        fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_pause(cx)
        }

        fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn end(&self) {}

        fn was_cut(&self) -> bool {
            false
        }
    }

    const LIMIT: Duration = Duration::from_mins(1);
    const SHORTER: Duration = Duration::from_secs(40);

    /// What comes of five bytes, two of which are there, how long it takes and what is sent.
    async fn carried(
        coming: Option<Duration>,
        going: Option<Duration>,
        patience: Patience,
    ) -> (Result<(), Broken>, Duration, Vec<u8>) {
        let (from, to) = (Paced::new(coming), Paced::new(going));
        let (buffers, mut inbox) = (Buffers::default(), Inbox::new(b"ab".to_vec()));
        let mut source = Source::h1(&from, &mut inbox, Framing::Length(5));
        let mut sink = Sink::h1(&to, Vec::new(), Framing::Length(5));
        let begun = Instant::now();
        let broken = carry(&mut source, &mut sink, &buffers, patience, false, |_| Ok(())).await;
        let sent = to.sent.borrow().clone();
        (broken, begun.elapsed(), sent)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_too_slowly_is_not_waited_for() {
        let patience = Patience { source: Some(LIMIT), sink: None };
        let quick = Some(Duration::from_millis(1));
        let (broken, elapsed, sent) = carried(None, quick, patience).await;
        let Err(Broken::Faulty(fault)) = broken else { panic!("{broken:?}") };
        assert_eq!(fault.status, 408);
        assert!(elapsed >= LIMIT && elapsed < LIMIT + SHORTER, "{elapsed:?}");
        assert_eq!(sent, b"ab", "what had come went on");

        // Each byte has its own time, however long all of them take.
        let (carried, elapsed, sent) = carried(Some(SHORTER), quick, patience).await;
        assert!(carried.is_ok() && elapsed > LIMIT, "{carried:?} after {elapsed:?}");
        assert_eq!(sent, b"abxxx");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_take_a_body_is_not_waited_for() {
        let patience = Patience { source: None, sink: Some(LIMIT) };
        let quick = Some(Duration::from_millis(1));
        let (broken, elapsed, sent) = carried(quick, None, patience).await;
        assert!(matches!(broken, Err(Broken::Sink)), "{broken:?}");
        assert_eq!((elapsed, sent), (LIMIT, Vec::new()));

        // One that takes a little in time takes the whole.
        let (carried, _, sent) = carried(Some(SHORTER), Some(Duration::from_secs(20)), patience).await;
        assert!(carried.is_ok(), "{carried:?}");
        assert_eq!(sent, b"abxxx");
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_waited_for_as_long_as_was_said() {
        assert_eq!(in_time(Duration::ZERO, pin!(ready("at once"))).await.unwrap(), "at once");
        for (takes, limit, done) in [(SHORTER, LIMIT, true), (LIMIT, SHORTER, false)] {
            let begun = Instant::now();
            let waited = in_time(limit, pin!(sleep(takes))).await;
            assert_eq!(
                waited.map_err(|error| error.kind()),
                if done { Ok(()) } else { Err(io::ErrorKind::TimedOut) }
            );
            assert_eq!(begun.elapsed(), takes.min(limit));
        }
        let never = within(Some(LIMIT), pin!(pending())).await;
        assert_eq!(never.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let failed = || ready(Err::<(), _>(io::ErrorKind::BrokenPipe.into()));
        for limit in [None, Some(LIMIT)] {
            assert_eq!(within(limit, pin!(failed())).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
