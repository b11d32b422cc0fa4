//! The door of a laptop's daemon: a Unix socket by which other processes of the same user open streams and flows through it,
//! look names up, see how things stand and end it. A visitor says in a line of JSON what it wants and gets a line back; behind
//! that are the stream's pieces, or the flow's datagrams, each with its length in front.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Handle, State};
use crate::framed;
use crate::join::join;
use crate::place::Place;
use crate::refusal::Refusal;

mod stream;
mod visitor;

pub use stream::Stream;
pub use visitor::{Datagrams, Visitor};

/// Visitors that may wait to be let in.
const BACKLOG: i32 = 1024;
/// How long a visitor has to say what it wants.
const HELLO: Duration = Duration::from_secs(10);
/// The longest line either way.
const MAX_LINE: usize = 64 << 10;
/// A pause after the kernel could not accept, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a visitor wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Ask {
    /// A stream to a place.
    Stream(String),
    /// A flow to a place.
    Datagrams(String),
    /// The addresses of a name.
    Resolve(String),
    /// How things stand; a line for every change if it follows.
    State { follow: bool },
    /// To end the daemon.
    Stop,
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    /// It is connected, or done.
    Done,
    /// It is not.
    Failed(String),
    /// The addresses of a name.
    Addresses(Vec<std::net::IpAddr>),
    /// How things stand.
    State(State),
}

/// A door that is open until it is dropped.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
        // A file that is gone already is what is wanted.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Door {
    /// Opens a door at `path`, for the user who runs this process. What an earlier process left there is taken away.
    ///
    /// # Errors
    /// When another process has its door there, or no socket can be made there.
    pub fn open(path: &Path, laptop: Arc<Handle>) -> io::Result<Self> {
        let listener = listen(path)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, laptop, stop.clone()));
        Ok(Self { path: path.to_owned(), stop, task })
    }

    /// Waits until a visitor asks for the daemon to end.
    pub async fn asked_to_stop(&self) {
        self.stop.cancelled().await;
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => {
            let text = format!("another process has its door at {}: end it first", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        // Nobody is behind it. A file that is something else is not ours to take away.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            if std::fs::symlink_metadata(path)?.file_type().is_socket() {
                std::fs::remove_file(path)?;
            }
        }
        Err(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Before anybody could be let in.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

async fn accept(listener: UnixListener, laptop: Arc<Handle>, stop: CancellationToken) {
    let own = rustix::process::geteuid().as_raw();
    // With the door its visitors end.
    let mut visitors = JoinSet::new();
    loop {
        while visitors.try_join_next().is_some() {}
        let visitor = match listener.accept().await {
            Ok((visitor, _)) => visitor,
            Err(error) => {
                tracing::warn!(%error, "can't let a visitor in");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let is_own = visitor.peer_cred().is_ok_and(|visitor| visitor.uid() == own || visitor.uid() == 0);
        if is_own {
            let (laptop, stop) = (laptop.clone(), stop.clone());
            visitors.spawn(async move {
                if let Err(error) = serve(visitor, &laptop, &stop).await {
                    tracing::debug!(%error, "a visitor failed");
                }
            });
        }
    }
}

async fn serve(mut visitor: UnixStream, laptop: &Handle, stop: &CancellationToken) -> io::Result<()> {
    let line = timeout(HELLO, read_line(&mut visitor)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let ask = match serde_json::from_slice(&line) {
        Ok(ask) => ask,
        Err(error) => {
            let text = format!("the daemon does not know this wish: is it of another release? {error}");
            return say(&mut visitor, &failed(&io::Error::new(io::ErrorKind::InvalidInput, text))).await;
        }
    };
    match ask {
        Ask::Stream(place) => match connect(laptop, &place).await {
            Ok(mut stream) => {
                say(&mut visitor, &Answer::Done).await?;
                // If one of them breaks off, so does the other when it is dropped.
                join(&mut Stream::new(visitor), &mut stream).await
            }
            Err(error) => say(&mut visitor, &failed(&error)).await,
        },
        Ask::Datagrams(place) => {
            let (sink, datagrams) = framed::queue();
            let opened = async { laptop.datagrams(&read_place(&place)?, sink).await };
            match opened.await {
                Ok(flow) => {
                    say(&mut visitor, &Answer::Done).await?;
                    framed::carry(visitor, &flow, datagrams).await
                }
                Err(error) => say(&mut visitor, &failed(&error)).await,
            }
        }
        Ask::Resolve(name) => {
            let answer = match laptop.resolve(&name).await {
                Ok(addresses) => Answer::Addresses(addresses),
                Err(error) => failed(&error),
            };
            say(&mut visitor, &answer).await
        }
        Ask::State { follow } => tell_state(visitor, laptop, follow).await,
        Ask::Stop => {
            say(&mut visitor, &Answer::Done).await?;
            stop.cancel();
            Ok(())
        }
    }
}

async fn connect(laptop: &Handle, place: &str) -> io::Result<causeway_link::Stream> {
    laptop.connect(&read_place(place)?).await
}

fn read_place(text: &str) -> io::Result<Place> {
    text.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Tells how things stand, again and again if the visitor wants that, until it goes.
async fn tell_state(mut visitor: UnixStream, laptop: &Handle, follow: bool) -> io::Result<()> {
    let mut state = laptop.state();
    loop {
        let now = state.borrow_and_update().clone();
        say(&mut visitor, &Answer::State(now)).await?;
        if !follow {
            return Ok(());
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return Ok(()) },
            _ = visitor.read_u8() => return Ok(()),
        }
    }
}

fn failed(error: &io::Error) -> Answer {
    Answer::Failed(Refusal::of_error(error).to_string())
}

async fn say(visitor: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    visitor.write_all(&line(answer)?).await
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a line and nothing behind it, since that is not for here.
async fn read_line(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        match from.read_u8().await? {
            b'\n' => return Ok(line),
            byte if line.len() < MAX_LINE => line.push(byte),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_written_as_documented() {
        for (ask, wanted) in [
            (Ask::Stream("web.shop:80".to_owned()), r#"{"stream":"web.shop:80"}"#),
            (Ask::Resolve("web".to_owned()), r#"{"resolve":"web"}"#),
            (Ask::State { follow: true }, r#"{"state":{"follow":true}}"#),
            (Ask::Stop, r#""stop""#),
        ] {
            assert_eq!(serde_json::to_string(&ask).unwrap(), wanted);
            assert_eq!(serde_json::from_str::<Ask>(wanted).unwrap(), ask);
        }
        assert_eq!(line(&Answer::Done).unwrap(), b"\"done\"\n");
    }
}
