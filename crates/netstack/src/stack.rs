//! A stack as its owner has it: flows come from it, and are opened with it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::device::Device;
use crate::engine::{Command, Engine, Mailbox};
use crate::flow::{Incoming, TcpFlow, UdpFlow};

/// A TCP/IP stack in user space. It stands for every address: whatever the device brings is for it. Clones are the same
/// stack; when the last is dropped it stops, and flows that are open are reset.
#[derive(Clone)]
pub struct Stack(Arc<Owner>);

struct Owner(Arc<Mailbox>);

/// Flows that others open.
#[derive(Debug)]
pub struct Arrivals(mpsc::Receiver<Incoming>);

impl Stack {
    /// Starts a stack on a device, as a task of the runtime that this is called in.
    pub fn start<D: Device>(device: D, config: &Config) -> (Self, Arrivals) {
        let mailbox = Arc::new(Mailbox::default());
        let (arrivals_tx, arrivals_rx) = mpsc::channel(config.backlog.max(1));
        tokio::spawn(Engine::new(device, config, Arc::clone(&mailbox), arrivals_tx).run());
        (Self(Arc::new(Owner(mailbox))), Arrivals(arrivals_rx))
    }

    /// Opens a TCP connection. Port 0 of `from` is any free one. It takes as long as the other end takes, up to half a
    /// minute: whoever has less time stops waiting, which gives it up.
    ///
    /// # Errors
    /// `ConnectionRefused`, `TimedOut`, `HostUnreachable` as from a kernel; `InvalidInput` for addresses between which
    /// there is no flow; `QuotaExceeded` when there is no place; `ConnectionAborted` when the stack has ended.
    pub async fn connect_tcp(&self, from: SocketAddr, to: SocketAddr) -> io::Result<TcpFlow> {
        let cell = self.ask(|reply| Command::Connect(from, to, reply)).await?;
        TcpFlow::connected(cell).await
    }

    /// Opens a UDP flow. Port 0 of `from` is any free one.
    ///
    /// # Errors
    /// `InvalidInput`, `AddrInUse`, `QuotaExceeded` and `ConnectionAborted` as above.
    pub async fn open_udp(&self, from: SocketAddr, to: SocketAddr) -> io::Result<UdpFlow> {
        Ok(UdpFlow::new(self.ask(|reply| Command::OpenUdp(from, to, reply)).await?, true))
    }

    /// Breaks off every flow whose other end is this address.
    pub fn cut(&self, address: IpAddr) {
        self.0.0.command(Command::Cut(address));
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<io::Result<T>>) -> Command) -> io::Result<T> {
        let (reply_tx, reply_rx) = oneshot::channel();
        self.0.0.command(ask(reply_tx));
        reply_rx.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.command(Command::Stop);
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl Arrivals {
    /// The next flow that somebody opens; none when the stack has ended.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.0.recv().await
    }
}
