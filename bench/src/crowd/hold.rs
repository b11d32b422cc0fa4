//! One process of the crowd: opens connections, holds those that it gets, and asks again for those that it does not.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Where the crowd comes from.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Connections that are being opened at a time.
const AT_ONCE: usize = 64;
/// Between two attempts for one place.
const AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Connections.
    count: usize,
    /// The ports to spread them over.
    ports: Vec<u16>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    for place in 0..args.count {
        let (port, turns) = (args.ports[place % args.ports.len()], turns.clone());
        tokio::spawn(async move {
            loop {
                let turn = turns.acquire().await;
                let opened = timeout(AGAIN, open(port)).await;
                drop(turn);
                if let Ok(Ok(mut stream)) = opened {
                    // Held until the other side has enough of it.
                    let _ = stream.read(&mut [0]).await;
                }
                sleep(AGAIN).await;
            }
        });
    }
    std::future::pending().await
}

async fn open(port: u16) -> std::io::Result<tokio::net::TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((FROM, 0).into())?;
    let mut stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    stream.write_all(b"x").await?;
    stream.read_exact(&mut [0]).await?;
    Ok(stream)
}
