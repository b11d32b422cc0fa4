//! The way by WireGuard, for networks where only UDP passes: a tunnel to the hub, and the link inside of it. The tunnel is there
//! for as long as something uses it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_netstack::wireguard::{self, MTU, Peer, PublicKey, SecretKey};
use causeway_netstack::{Config, Stack, TcpFlow};
use futures::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::approach::{Approach, Dial, Duplex};
use crate::way::Way;
use crate::wireguard::{LINK_PORT, gateway};

/// How long the hub has to answer. A packet that is lost is sent again within a second or two.
const CONNECT: Duration = Duration::from_secs(6);
/// How long a name may take to be looked up.
const LOOKUP: Duration = Duration::from_secs(2);

/// What the way by WireGuard needs; all of it but the key is in the workstation's status.
#[derive(Clone)]
pub struct WireGuard {
    /// The laptop's private key.
    pub key: [u8; 32],
    /// The hub's public key.
    pub hub: [u8; 32],
    /// HOST:PORT of the hub.
    pub endpoint: String,
    /// The laptop's address inside.
    pub address: IpAddr,
}

impl std::fmt::Debug for WireGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WireGuard").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl From<WireGuard> for Approach {
    fn from(config: WireGuard) -> Self {
        let shared = Arc::new((config, Mutex::new(Weak::new())));
        let dial: Dial = Arc::new(move || {
            let shared = shared.clone();
            async move { connect(&shared.0, &shared.1).await }.boxed()
        });
        Self::Bridge { way: Way::WireGuard, dial }
    }
}

/// Connects to the hub's port for links, by the tunnel that is there, or by a new one.
async fn connect(config: &WireGuard, known: &Mutex<Weak<Stack>>) -> io::Result<Box<dyn Duplex>> {
    let there = lock(known).upgrade();
    let tunnel = if let Some(tunnel) = there {
        tunnel
    } else {
        let tunnel = Arc::new(open(config).await?);
        *lock(known) = Arc::downgrade(&tunnel);
        tunnel
    };
    let (from, to) = (SocketAddr::new(config.address, 0), gateway(config.address, LINK_PORT));
    let connecting = timeout(CONNECT, tunnel.connect_tcp(from, to)).await;
    let flow = connecting.map_err(|_| {
        let text = format!("no answer from {} by WireGuard within {} s", config.endpoint, CONNECT.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, text)
    })??;
    Ok(Box::new(Tunnelled { flow, _tunnel: tunnel }))
}

async fn open(config: &WireGuard) -> io::Result<Stack> {
    let mut found =
        timeout(LOOKUP, lookup_host(&config.endpoint)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let unknown =
        || io::Error::new(io::ErrorKind::NotFound, format!("{}: there is no such host", config.endpoint));
    let endpoint = found.next().ok_or_else(unknown)?;
    let hub = Peer::hub(PublicKey(config.hub), endpoint);
    let (_, device) = wireguard::dial(SecretKey(config.key), MTU, hub)?;
    // Nobody opens anything to this end: the hub has the link for that.
    Ok(Stack::start(device, &Config::default()).0)
}

/// A stream in a tunnel, which lasts for as long as the stream.
struct Tunnelled {
    flow: TcpFlow,
    _tunnel: Arc<Stack>,
}

impl AsyncRead for Tunnelled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.flow).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Tunnelled {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.flow).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.flow).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.flow).poll_shutdown(cx)
    }
}
