//! Hands listening sockets from a running process to its successor over a Unix socket, so that a binary is replaced
//! without a refused connect: both hold the same sockets, so the queues of waiting connections outlive the old one.
//! The old process goes on as if nothing happened until the new one says that it is ready.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_ir::Name;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::UnixListener;

use crate::listen::Transport;

/// Descriptors in one message; the kernel takes no more than 253.
const BATCH: usize = 128;
const MESSAGE: usize = 4 << 10;
/// For one message.
const PATIENCE: Duration = Duration::from_secs(10);
/// From the last socket to the word that the new process is ready.
const READY_WITHIN: Duration = Duration::from_mins(1);
const TAKEN: u8 = b'+';
const READY: u8 = b'!';

/// What a socket is for, so that the new process knows it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// A listener of the plan; with port 0 its name tells it from others.
    Listener {
        /// The transport.
        protocol: Transport,
        /// As in the plan.
        bind: SocketAddr,
        /// Only with port 0.
        name: Option<Name>,
    },
    /// The admin paths, at the place that was asked for.
    Admin {
        /// An address or a path.
        at: String,
    },
    /// The socket of the handover itself.
    #[serde(rename = "door")]
    Handover,
}

/// Sockets with one purpose: a listener has several, since each core has its own.
#[derive(Debug)]
pub struct Handed {
    /// What they are for.
    pub purpose: Purpose,
    /// The sockets.
    pub sockets: Vec<OwnedFd>,
}

/// Why a handover failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The place is taken by something else, or not allowed.
    #[error("can't wait for a successor on {}", path.display())]
    Open {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is a process that does not let go.
    #[error("the process on {} did not hand over its sockets; it runs on", path.display())]
    Claim {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The sockets of a predecessor, which still serves them.
#[derive(Debug)]
pub struct Claim {
    stream: UnixStream,
    handed: Vec<Handed>,
}

impl Claim {
    /// Takes the sockets of the process that waits at a path; `None` if there is none. Blocks for as long as that
    /// takes.
    ///
    /// # Errors
    /// If there is a process and it does not let go; it serves on.
    pub fn take(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::Claim { path: path.to_owned(), source };
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        let handed = receive_all(&stream).map_err(failed)?;
        Ok(Some(Self { stream, handed }))
    }

    /// Removes the sockets with a purpose from the claim.
    pub fn remove(&mut self, purpose: &Purpose) -> Vec<OwnedFd> {
        self.handed
            .extract_if(.., |handed| handed.purpose == *purpose)
            .flat_map(|handed| handed.sockets)
            .collect()
    }

    /// Removes the listeners of the plan from the claim.
    pub fn remove_listeners(&mut self) -> Vec<Handed> {
        let is_listener = |handed: &mut Handed| matches!(handed.purpose, Purpose::Listener { .. });
        self.handed.extract_if(.., is_listener).collect()
    }

    /// Tells the predecessor that everything is served here now: it stops accepting.
    ///
    /// # Errors
    /// If it is gone.
    pub fn ready(mut self) -> io::Result<()> {
        self.stream.write_all(&[READY])
    }
}

/// Where a process waits for its successor.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
}

impl Socket {
    /// Listens at a path, only for this user. What an ended process left there is replaced.
    ///
    /// # Errors
    /// If something else is there, or the path is not allowed.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = || {
            let left_over = std::fs::symlink_metadata(path).is_ok_and(|at| at.file_type().is_socket())
                && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            if left_over {
                std::fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            Ok(Self { listener })
        };
        open().map_err(|source| Error::Open { path: path.to_owned(), source })
    }

    /// Goes on waiting where the predecessor did.
    ///
    /// # Errors
    /// If it is no listening socket.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn inherit(socket: OwnedFd) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)? })
    }

    /// Waits until a successor has taken over, and answers with its process id. `offer` gathers what it gets; this
    /// socket is added.
    ///
    /// # Cancellation
    /// Dropping the future while a successor is being served may leave that one with the sockets and without an
    /// answer: it gives up, and this process serves on.
    pub async fn handed_over<F: Future<Output = Vec<Handed>>>(&self, offer: impl Fn() -> F) -> i32 {
        loop {
            match self.hand_over(&offer).await {
                Ok(successor) => return successor,
                Err(error) => {
                    tracing::warn!(%error, "a handover came to nothing; this process serves on");
                    // Without descriptors accepting fails at once, again and again.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn hand_over<F: Future<Output = Vec<Handed>>>(&self, offer: impl Fn() -> F) -> io::Result<i32> {
        let (stream, _) = self.listener.accept().await?;
        let peer = sockopt::socket_peercred(&stream)?;
        if peer.uid != rustix::process::geteuid() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the user {} asked for the sockets", peer.uid.as_raw()),
            ));
        }
        let mut handed = offer().await;
        let own = self.listener.as_fd().try_clone_to_owned()?;
        handed.push(Handed { purpose: Purpose::Handover, sockets: vec![own] });
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        tokio::task::spawn_blocking(move || give_all(stream, handed)).await.map_err(io::Error::other)??;
        Ok(peer.pid.as_raw_nonzero().get())
    }
}

/// Sends everything and waits for the word that it is served.
fn give_all(mut stream: UnixStream, handed: Vec<Handed>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for Handed { purpose, sockets } in &handed {
        for batch in sockets.chunks(BATCH) {
            let batch: Vec<BorrowedFd<'_>> = batch.iter().map(AsFd::as_fd).collect();
            give(&mut stream, Some(purpose), &batch)?;
        }
    }
    give(&mut stream, None, &[])?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    expect(&mut stream, READY)
}

/// One message and its receipt: nothing more is on its way, so that messages can't run together.
fn give(stream: &mut UnixStream, purpose: Option<&Purpose>, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut text = serde_json::to_vec(&purpose)?;
    text.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("too many sockets for a message"));
    }
    let sent = sendmsg(&*stream, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    if sent < text.len() {
        return Err(io::Error::other("a message was cut"));
    }
    expect(stream, TAKEN)
}

fn expect(stream: &mut UnixStream, word: u8) -> io::Result<()> {
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer == [word] { Ok(()) } else { Err(io::Error::other("the other process speaks otherwise")) }
}

fn receive_all(mut stream: &UnixStream) -> io::Result<Vec<Handed>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut all = Vec::new();
    loop {
        let (text, sockets) = receive(stream)?;
        let value: serde_json::Value = serde_json::from_slice(&text)?;
        stream.write_all(&[TAKEN])?;
        if value.is_null() {
            return Ok(all);
        }
        // What a newer version may hand over besides is of no use here.
        if let Ok(purpose) = serde_json::from_value(value) {
            all.push(Handed { purpose, sockets });
        }
    }
}

fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut text = vec![0; MESSAGE];
    let mut sockets = Vec::new();
    let mut length = 0;
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut text[length..])];
        let received = recvmsg(stream, into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                sockets.extend(more);
            }
        }
        length += received.bytes;
        if text[..length].ends_with(b"\n") {
            text.truncate(length);
            return Ok((text, sockets));
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests;
