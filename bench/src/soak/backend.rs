//! Endpoints for the engine: they say who they are and then give back what they get, byte by byte, until the client
//! has said all.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) const GREETING: usize = 3;

pub(crate) fn greeting(id: u16) -> [u8; GREETING] {
    let [high, low] = id.to_be_bytes();
    [b'B', high, low]
}

/// What an endpoint does after its greeting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Echo,
    Reset,
}

/// A TCP endpoint; it and all its connections end when it is stopped or dropped.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    id: u16,
    manner: Manner,
    task: JoinHandle<()>,
}

impl Backend {
    pub(crate) async fn start(id: u16, manner: Manner) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("can't listen")?;
        let address = listener.local_addr()?;
        Ok(Self { address, id, manner, task: tokio::spawn(serve(listener, id, manner)) })
    }

    /// Ends it, with its connections, as a process that dies does.
    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        // It ends with an error because it was aborted.
        let _ = (&mut self.task).await;
    }

    /// Starts it again where it was.
    pub(crate) async fn revive(&mut self) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.address).await.context("can't listen again")?;
        self.task = tokio::spawn(serve(listener, self.id, self.manner));
        Ok(())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, id: u16, manner: Manner) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(async move {
                    // The client sees what went wrong, and whether it should have.
                    let _ = answer(stream, id, manner).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(mut stream: TcpStream, id: u16, manner: Manner) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(&greeting(id)).await?;
    if manner == Manner::Reset {
        let mut byte = [0];
        let _ = stream.read(&mut byte).await?;
        return stream.set_zero_linger();
    }
    let mut block = vec![0; 32 << 10];
    loop {
        let count = stream.read(&mut block).await?;
        if count == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&block[..count]).await?;
    }
}

/// A UDP endpoint that gives back each datagram with its greeting before it.
pub(crate) async fn datagrams(id: u16) -> anyhow::Result<SocketAddr> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.context("can't take datagrams")?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut datagram = vec![0; 64 << 10];
        loop {
            let Ok((count, from)) = socket.recv_from(&mut datagram[GREETING..]).await else { continue };
            datagram[..GREETING].copy_from_slice(&greeting(id));
            // A client that is gone needs no answer.
            let _ = socket.send_to(&datagram[..GREETING + count], from).await;
        }
    });
    Ok(address)
}
