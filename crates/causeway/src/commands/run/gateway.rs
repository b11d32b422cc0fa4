//! What a process in a network of its own opens, and where it leads: into the cluster through the daemon's door, to this
//! machine, or out as from any process of this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_netstack::{Arrivals, Incoming, Pending, UdpFlow};
use causeway_stowaway::Place;
use causeway_stowaway::laptop::door::Visitor;
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::names::{By, Cluster, Names, read_message, write_message};

/// This machine and its resolver, as the process sees them.
pub(super) const MACHINE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The same in IPv6.
pub(super) const MACHINE_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xca05, 0xe3a7, 0, 0, 0, 0, 1);
/// The process's own addresses. This network is for benchmarks, so no cluster has it.
pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(super) const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xca05, 0xe3a7, 0, 0, 0, 0, 2);

const DNS: u16 = 53;
/// How long somebody outside may take to answer.
const CONNECT: Duration = Duration::from_secs(30);
/// Silence after which a flow of datagrams ends.
const IDLE: Duration = Duration::from_mins(1);
/// The longest datagram.
const DATAGRAM: usize = 65_535;

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Cluster,
    Resolver,
    /// A port of this machine's loopback.
    Machine,
    Outside,
}

/// Leads flows to where they go.
pub(super) struct Gateway {
    visitor: Visitor,
    names: Names<ByDoor>,
    /// The networks of the cluster.
    networks: Vec<IpNet>,
    machine: ToMachine,
}

/// Whether this machine's loopback is reached by the address that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToMachine {
    Allowed,
    /// Whoever carries the packets is on another machine, or in a container.
    Refused,
}

/// Asks the cluster's end for names, through the door.
pub(super) struct ByDoor(pub(super) Visitor);

impl Cluster for ByDoor {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match self.0.resolve(name).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }
}

impl Gateway {
    pub(super) fn new(
        visitor: Visitor,
        names: Names<ByDoor>,
        networks: Vec<IpNet>,
        machine: ToMachine,
    ) -> Self {
        Self { visitor, names, networks, machine }
    }

    /// Serves what the process opens until its network is gone.
    pub(super) async fn serve(self, mut arrivals: Arrivals) {
        let gateway = Arc::new(self);
        while let Some(incoming) = arrivals.next().await {
            let gateway = Arc::clone(&gateway);
            tokio::spawn(async move {
                match incoming {
                    Incoming::Tcp(pending) => gateway.stream(pending).await,
                    Incoming::Udp(flow) => gateway.datagrams(flow).await,
                }
            });
        }
    }

    fn way(&self, to: SocketAddr) -> Way {
        match way(to, &self.networks) {
            // A pod whose network nobody has told, by the name of a headless Service.
            Way::Outside if self.names.knows(to.ip()) => Way::Cluster,
            way => way,
        }
    }

    async fn stream(&self, pending: Pending) {
        let to = pending.to();
        match self.way(to) {
            Way::Resolver => self.resolve_stream(pending).await,
            Way::Cluster => {
                let connected = self.visitor.connect(&Place::from(to)).await;
                join(pending, connected).await;
            }
            Way::Machine if self.machine == ToMachine::Refused => pending.refuse(),
            Way::Machine => {
                let connected = connect_machine(to.port()).await;
                join(pending, connected).await;
            }
            Way::Outside => {
                let connected = timeout(CONNECT, TcpStream::connect(to)).await;
                join(pending, connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))).await;
            }
        }
    }

    async fn resolve_stream(&self, pending: Pending) {
        let mut flow = pending.accept();
        while let Ok(Ok(Some(message))) = timeout(IDLE, read_message(&mut flow)).await {
            let Some(answer) = self.names.answer(&message, By::Stream).await else { return };
            if write_message(&mut flow, &answer).await.is_err() {
                return;
            }
        }
    }

    async fn datagrams(&self, flow: UdpFlow) {
        let to = flow.to();
        let ended = match self.way(to) {
            Way::Resolver => {
                while let Ok(Some(question)) = timeout(IDLE, flow.receive()).await {
                    if let Some(answer) = self.names.answer(&question, By::Datagram).await {
                        flow.send(&answer);
                    }
                }
                return;
            }
            Way::Cluster => self.datagrams_to_cluster(&flow, to).await,
            Way::Machine if self.machine == ToMachine::Refused => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Way::Machine => {
                datagrams_out(&flow, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port())).await
            }
            Way::Outside => datagrams_out(&flow, to).await,
        };
        if let Err(error) = ended {
            tracing::debug!(%to, %error, "datagrams can't be carried");
            flow.refuse();
        }
    }

    async fn datagrams_to_cluster(&self, flow: &UdpFlow, to: SocketAddr) -> io::Result<()> {
        let (mut receiving, mut sending) = self.visitor.datagrams(&Place::from(to)).await?.split();
        let there = async {
            while let Some(datagram) = flow.receive().await {
                sending.send(&datagram).await?;
            }
            Ok::<_, io::Error>(())
        };
        let back = async {
            let mut datagram = Vec::new();
            while receiving.receive(&mut datagram).await?.is_some() {
                flow.send(&datagram);
            }
            Ok::<_, io::Error>(())
        };
        tokio::select! {
            ended = there => ended,
            ended = back => ended,
        }
    }
}

fn way(to: SocketAddr, networks: &[IpNet]) -> Way {
    let is_machine = to.ip() == IpAddr::V4(MACHINE) || to.ip() == IpAddr::V6(MACHINE_V6);
    match to.port() {
        DNS if is_machine => Way::Resolver,
        _ if is_machine => Way::Machine,
        _ if networks.iter().any(|network| network.contains(&to.ip())) => Way::Cluster,
        _ => Way::Outside,
    }
}

/// A program that listens on localhost listens on one of its addresses, or on both.
async fn connect_machine(port: u16) -> io::Result<TcpStream> {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(stream) => Ok(stream),
        Err(error) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.map_err(|_| error),
    }
}

/// Carries a stream once the other side is there, or refuses it as the other side did.
async fn join(pending: Pending, connected: io::Result<impl AsyncRead + AsyncWrite + Unpin>) {
    match connected {
        Ok(mut there) => {
            let mut flow = pending.accept();
            if copy_bidirectional(&mut flow, &mut there).await.is_err() {
                // What was broken off must not look like an end.
                flow.reset();
            }
        }
        Err(error) => {
            tracing::debug!(to = %pending.to(), %error, "can't be reached");
            pending.refuse();
        }
    }
}

async fn datagrams_out(flow: &UdpFlow, to: SocketAddr) -> io::Result<()> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        tokio::select! {
            datagram = flow.receive() => match datagram {
                Some(datagram) => drop(socket.send(&datagram).await?),
                None => return Ok(()),
            },
            received = socket.recv(&mut buffer) => flow.send(&buffer[..received?]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_the_cluster_this_machine_or_out() {
        let networks: Vec<IpNet> = ["10.96.0.0/12", "127.96.0.0/16"].map(|text| text.parse().unwrap()).into();
        for (to, expected) in [
            ("10.96.0.10:80", Way::Cluster),
            ("127.96.0.7:80", Way::Cluster),
            ("198.18.0.1:53", Way::Resolver),
            ("198.18.0.1:5432", Way::Machine),
            ("[fd00:ca05:e3a7::1]:53", Way::Resolver),
            ("192.0.2.1:53", Way::Outside),
            ("[2001:db8::1]:443", Way::Outside),
        ] {
            assert_eq!(way(to.parse().unwrap(), &networks), expected, "{to}");
        }
    }
}
