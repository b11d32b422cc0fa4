//! Ports that a process in a network of its own listens on, published on this machine's loopback: for the traffic of intercepts,
//! and for the developer's browser. A port is published while something listens on it and no longer, so that whoever connects
//! finds out at once that nobody is there.

pub(super) mod listening;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::namespace::Sockets;
use crate::parts::progress::Progress;

/// How often it is looked which ports are listened on.
const LOOK: Duration = Duration::from_millis(100);
/// Silence after which a flow of datagrams ends.
const IDLE: Duration = Duration::from_mins(1);
const DATAGRAM: usize = 65_535;
/// A pause after the kernel could not accept, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A port to publish whatever the process does, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Published {
    /// On this machine.
    pub(super) here: u16,
    /// In the process's network.
    pub(super) there: u16,
    pub(super) datagrams: bool,
}

impl Published {
    /// The same number on both sides, for a protocol of Kubernetes.
    pub(crate) fn of(port: u16, protocol: &str) -> Vec<Self> {
        vec![Self { here: port, there: port, datagrams: protocol == "UDP" }]
    }
}

impl std::str::FromStr for Published {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is no port to publish: write HERE:THERE, or one port for both, with /udp for datagrams"
            )
        };
        let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let (here, there) = ports.split_once(':').unwrap_or((ports, ports));
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(bad);
        match protocol {
            "tcp" | "udp" => {}
            _ => return Err(bad()),
        }
        Ok(Self { here: port(here)?, there: port(there)?, datagrams: protocol == "udp" })
    }
}

/// Publishes ports until it is dropped.
pub(super) async fn publish(wanted: Vec<Published>, sockets: Arc<Sockets>, progress: &Progress) {
    let mut flows = JoinSet::new();
    for port in wanted.iter().filter(|port| port.datagrams).copied() {
        let sockets = Arc::clone(&sockets);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.here));
        match UdpSocket::bind(address).await {
            Ok(socket) => drop(flows.spawn(carry_datagrams(socket, port.there, sockets))),
            Err(error) => progress.mind(format_args!("UDP port {} is not published: {error}", port.here)),
        }
    }
    let named: BTreeMap<u16, u16> =
        wanted.iter().filter(|port| !port.datagrams).map(|port| (port.there, port.here)).collect();
    // Where the kernel does not tell, those that were named are taken to be listened on.
    let assumed: BTreeMap<u16, IpAddr> =
        named.keys().map(|port| (*port, Ipv4Addr::LOCALHOST.into())).collect();
    let inquirer = sockets.inquirer().await;
    let mut open: BTreeMap<u16, JoinSet<()>> = BTreeMap::new();
    let mut refused = BTreeSet::new();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let told = inquirer.as_ref().ok().and_then(|inquirer| listening::listened(inquirer).ok());
        let listened = told.unwrap_or_else(|| assumed.clone());
        open.retain(|port, _| listened.contains_key(port));
        refused.retain(|port| listened.contains_key(port));
        for (port, inside) in listened {
            if open.contains_key(&port) || refused.contains(&port) {
                continue;
            }
            let here = named.get(&port).copied().unwrap_or(port);
            match listen(here).await {
                Ok(listeners) => {
                    let mut tasks = JoinSet::new();
                    for listener in listeners {
                        tasks.spawn(accept(listener, SocketAddr::new(inside, port), Arc::clone(&sockets)));
                    }
                    progress
                        .mind(format_args!("port {port} of the command is localhost:{here} of this machine"));
                    open.insert(port, tasks);
                }
                Err(error) => {
                    refused.insert(port);
                    progress.mind(format_args!(
                        "port {port} of the command is not published on localhost:{here}: {error}"
                    ));
                }
            }
        }
    }
}

/// Both addresses of the loopback; the second as far as it can be had.
async fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = vec![TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?];
    listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok());
    Ok(listeners)
}

async fn accept(listener: TcpListener, to: SocketAddr, sockets: Arc<Sockets>) {
    // What is open ends by itself, also when the port is no longer listened on.
    loop {
        let here = match listener.accept().await {
            Ok((here, _)) => here,
            Err(error) => {
                tracing::warn!(%to, %error, "can't accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let sockets = Arc::clone(&sockets);
        tokio::spawn(async move {
            match connect(&sockets, to).await {
                Ok(there) => carry(here, there).await,
                Err(error) => {
                    tracing::debug!(%to, %error, "the command does not take connections");
                    // Nobody was there, so it is a reset and no end.
                    causeway_link::reset_on_close(&here);
                }
            }
        });
    }
}

/// Carries a connection to its end; what was broken off does not look like one.
async fn carry(mut here: TcpStream, mut there: TcpStream) {
    if copy_bidirectional(&mut here, &mut there).await.is_err() {
        causeway_link::reset_on_close(&here);
        causeway_link::reset_on_close(&there);
    }
}

async fn connect(sockets: &Arc<Sockets>, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::from_std_stream(sockets.stream(to.ip()).await?);
    socket.connect(to).await
}

async fn carry_datagrams(here: UdpSocket, port: u16, sockets: Arc<Sockets>) {
    let here = Arc::new(here);
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut clients: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut buffer = vec![0; DATAGRAM];
    while let Ok((length, client)) = here.recv_from(&mut buffer).await {
        // Those that have ended have no other owner.
        clients.retain(|_, socket| Arc::strong_count(socket) > 1);
        let there = match clients.get(&client) {
            Some(there) => Arc::clone(there),
            None => match open_datagrams(&sockets, to).await {
                Ok(there) => {
                    clients.insert(client, Arc::clone(&there));
                    tokio::spawn(bring_back(Arc::clone(&here), client, Arc::clone(&there)));
                    there
                }
                Err(_) => continue,
            },
        };
        let _ = there.send(&buffer[..length]).await;
    }
}

async fn open_datagrams(sockets: &Arc<Sockets>, to: SocketAddr) -> io::Result<Arc<UdpSocket>> {
    let socket = UdpSocket::from_std(sockets.datagrams(to.ip()).await?)?;
    socket.connect(to).await?;
    Ok(Arc::new(socket))
}

async fn bring_back(here: Arc<UdpSocket>, client: SocketAddr, there: Arc<UdpSocket>) {
    let mut buffer = vec![0; DATAGRAM];
    while let Ok(Ok(length)) = timeout(IDLE, there.recv(&mut buffer)).await {
        if here.send_to(&buffer[..length], client).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (here, there) = tokio::join!(TcpStream::connect(address), listener.accept());
        (here.unwrap(), there.unwrap().0)
    }

    #[tokio::test]
    async fn what_the_command_breaks_off_is_no_end() {
        let ((mut client, here), (there, mut command)) = (pair().await, pair().await);
        let carrying = tokio::spawn(carry(here, there));
        command.write_all(b"half").await.unwrap();
        let mut half = [0; 4];
        client.read_exact(&mut half).await.unwrap();
        causeway_link::reset_on_close(&command);
        drop(command);
        assert_eq!(client.read(&mut half).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        carrying.await.unwrap();
    }

    #[test]
    fn ports_to_publish_are_read() {
        for (text, expected) in [
            ("8080", Published { here: 8080, there: 8080, datagrams: false }),
            ("9000:80", Published { here: 9000, there: 80, datagrams: false }),
            ("5353:53/udp", Published { here: 5353, there: 53, datagrams: true }),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "0", "a:b", "80/sctp", "1:2:3"] {
            assert!(text.parse::<Published>().unwrap_err().contains("HERE:THERE"), "{text}");
        }
    }
}
