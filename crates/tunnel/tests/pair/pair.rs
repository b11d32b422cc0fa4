//! A pair to test with, and services behind it.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use causeway_ir::tunnel::{LinkState, Tunnel, TunnelId, TunnelState};
use causeway_ir::{Endpoint, Name};
use causeway_tunnel::client::{self, Client};
use causeway_tunnel::host::{Host, Options, Status};
use causeway_tunnel::{Authority, client_identity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub const PATIENCE: Duration = Duration::from_secs(20);

pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what} took longer than {PATIENCE:?}"))
}

pub fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// The client end, until it is dropped.
pub struct Container {
    pub control: SocketAddr,
    pub data: SocketAddr,
    pub stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Container {
    pub async fn start(authority: &Authority, control: SocketAddr, data: SocketAddr) -> Self {
        let identity = client_identity(authority).expect("keys");
        let client = within("binding", async {
            loop {
                let options = client::Options { control, data, identity: identity.clone(), save_to: None };
                match Client::bind(options).await {
                    Ok(client) => break client,
                    // The predecessor's sockets are closed in a moment.
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        let (control, data) = client.addresses();
        let stop = CancellationToken::new();
        let task = tokio::spawn(client.run(stop.clone()));
        Self { control, data, stop, task }
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("ends");
    }
}

pub struct Pair {
    pub authority: Authority,
    pub container: Container,
    pub host: Host,
}

impl Pair {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let authority = Authority::new().expect("keys");
        let container = Container::start(&authority, any(), any()).await;
        let mut options = Options::new(container.control, container.data, authority.clone());
        change(&mut options);
        let host = Host::start(options);
        Self { authority, container, host }
    }

    /// Carries the tunnels and waits until the first one takes clients; gives its port.
    pub async fn carry(&self, tunnels: Vec<Tunnel>) -> u16 {
        let id = tunnels[0].id;
        self.host.carry(tunnels);
        self.listening(id).await
    }

    pub async fn listening(&self, id: TunnelId) -> u16 {
        listening(&self.host, id).await
    }

    pub async fn state(&self, id: TunnelId, wanted: impl Fn(&TunnelState) -> bool) -> TunnelState {
        let status = until(&self.host, |status| status.tunnels.get(&id).is_some_and(&wanted)).await;
        status.tunnels[&id].clone()
    }
}

pub async fn until(host: &Host, wanted: impl Fn(&Status) -> bool) -> Status {
    let mut status = host.status();
    let found = timeout(PATIENCE, status.wait_for(&wanted)).await.map(|status| status.expect("runs").clone());
    found.unwrap_or_else(|_| panic!("the state did not come; it is {:?}", *host.status().borrow()))
}

pub async fn listening(host: &Host, id: TunnelId) -> u16 {
    let status = until(host, |status| {
        status.link == LinkState::Up && matches!(status.tunnels.get(&id), Some(TunnelState::Listening { .. }))
    })
    .await;
    match status.tunnels[&id] {
        TunnelState::Listening { port } => port,
        _ => unreachable!("waited for it"),
    }
}

pub fn tunnel(id: TunnelId, targets: &[SocketAddr]) -> Tunnel {
    let name = Name::parse(&format!("t{id}")).expect("a name");
    Tunnel {
        endpoints: targets.iter().map(|target| Endpoint::new(*target)).collect(),
        ..Tunnel::new(id, name)
    }
}

pub async fn dial(port: u16) -> TcpStream {
    within("connecting", TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await.expect("connects")
}

/// Connects once the port takes clients; a link that just came up may need a moment.
pub async fn dial_soon(port: u16) -> TcpStream {
    within("connecting", async {
        loop {
            if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                break stream;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// Sends a line through and expects it back.
pub async fn echoes(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("writes");
    let mut back = vec![0; text.len()];
    within("an echo", stream.read_exact(&mut back)).await.expect("reads");
    assert_eq!(back, text.as_bytes());
}

/// A service that sends back what it gets, with a word of its own in front.
pub async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(any()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                write.write_all(name.as_bytes()).await.ok();
                tokio::io::copy(&mut read, &mut write).await.ok();
                write.shutdown().await.ok();
            });
        }
    });
    address
}
