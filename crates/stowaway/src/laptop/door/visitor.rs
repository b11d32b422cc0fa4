//! The other side of a door: what another process of the same user does with it.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::{Answer, Ask, Stream, line, read_line};
use crate::framed;
use crate::laptop::State;
use crate::place::Place;
use crate::refusal::Refusal;

/// Goes through a daemon's door.
#[derive(Debug, Clone)]
pub struct Visitor {
    path: PathBuf,
}

impl Visitor {
    /// For the door at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Connects to a place in the cluster.
    ///
    /// # Errors
    /// When the daemon is not there, or can't connect: the error says why.
    pub async fn connect(&self, place: &Place) -> io::Result<Stream> {
        let (stream, answer) = self.ask(&Ask::Stream(place.to_string())).await?;
        done(answer).map(|()| Stream::new(stream))
    }

    /// Opens a flow of datagrams to a place in the cluster.
    ///
    /// # Errors
    /// When the daemon is not there, or can't open it: the error says why.
    pub async fn datagrams(&self, place: &Place) -> io::Result<Datagrams> {
        let (stream, answer) = self.ask(&Ask::Datagrams(place.to_string())).await?;
        done(answer)?;
        let (from, to) = stream.into_split();
        Ok(Datagrams { from: Receiving(from), to: Sending(to) })
    }

    /// The addresses of a name in the cluster.
    ///
    /// # Errors
    /// When the daemon is not there, or knows no such name.
    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match self.ask(&Ask::Resolve(name.to_owned())).await?.1 {
            Answer::Addresses(addresses) => Ok(addresses),
            other => Err(unexpected(other)),
        }
    }

    /// How things stand.
    ///
    /// # Errors
    /// When the daemon is not there.
    pub async fn state(&self) -> io::Result<State> {
        match self.ask(&Ask::State { follow: false }).await?.1 {
            Answer::State(state) => Ok(state),
            other => Err(unexpected(other)),
        }
    }

    /// Waits until things stand as wanted; gives how they do.
    ///
    /// # Errors
    /// When the daemon is not there, or goes.
    pub async fn wait_for(&self, wanted: impl Fn(&State) -> bool) -> io::Result<State> {
        let (mut stream, mut answer) = self.ask(&Ask::State { follow: true }).await?;
        loop {
            match answer {
                Answer::State(state) if wanted(&state) => return Ok(state),
                Answer::State(_) => answer = serde_json::from_slice(&read_line(&mut stream).await?)?,
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Ends the daemon.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn stop(&self) -> io::Result<()> {
        done(self.ask(&Ask::Stop).await?.1)
    }

    async fn ask(&self, ask: &Ask) -> io::Result<(UnixStream, Answer)> {
        let mut stream = UnixStream::connect(&self.path).await?;
        stream.write_all(&line(ask)?).await?;
        let answer = serde_json::from_slice(&read_line(&mut stream).await?)?;
        Ok((stream, answer))
    }
}

fn done(answer: Answer) -> io::Result<()> {
    match answer {
        Answer::Done => Ok(()),
        other => Err(unexpected(other)),
    }
}

fn unexpected(answer: Answer) -> io::Error {
    match answer {
        Answer::Failed(reason) => Refusal::parse(&reason).into(),
        _ => io::Error::new(
            io::ErrorKind::InvalidData,
            "the daemon answers something else: is it of another release?",
        ),
    }
}

/// A flow of datagrams through a door.
#[derive(Debug)]
pub struct Datagrams {
    from: Receiving,
    to: Sending,
}

impl Datagrams {
    /// Sends a datagram.
    ///
    /// # Errors
    /// When the flow has ended.
    pub async fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.to.send(datagram).await
    }

    /// Waits for a datagram; none at the end.
    ///
    /// # Errors
    /// When the daemon is gone.
    ///
    /// # Cancellation
    /// Not to be cancelled: what was read of a datagram would be lost.
    pub async fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        self.from.receive(into).await
    }

    /// Its two halves, for two tasks.
    pub fn split(self) -> (Receiving, Sending) {
        (self.from, self.to)
    }
}

/// The half of a flow that brings datagrams.
#[derive(Debug)]
pub struct Receiving(OwnedReadHalf);

impl Receiving {
    /// Waits for a datagram; none at the end.
    ///
    /// # Errors
    /// When the daemon is gone.
    ///
    /// # Cancellation
    /// Not to be cancelled: what was read of a datagram would be lost.
    pub async fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        framed::read(&mut self.0, into).await
    }
}

/// The half of a flow that takes datagrams.
#[derive(Debug)]
pub struct Sending(OwnedWriteHalf);

impl Sending {
    /// Sends a datagram.
    ///
    /// # Errors
    /// When the flow has ended.
    pub async fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(2 + datagram.len());
        framed::put(&mut bytes, datagram);
        self.0.write_all(&bytes).await
    }
}
