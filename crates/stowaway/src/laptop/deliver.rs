//! What the cluster sends to this laptop: streams and flows to local ports, as far as the user allows.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use causeway_base::lock::read;
use causeway_base::{Budget, Share, capacity};
use causeway_link::{Handler, Incoming, Stream};
use tokio::net::TcpStream;

use super::Laptop;
use crate::datagrams;
use crate::refusal::{Cause, Refusal};
use crate::request::{Delivery, Request, flow_settings, say_connected, stream_settings};

/// How long a local port has to answer. The hub does not wait for longer than two seconds.
const CONNECT: Duration = Duration::from_millis(1500);
/// The most streams that come from the cluster at a time.
const MOST: u64 = 4096;

/// Where the cluster's streams may go on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MayDeliver {
    /// Which ports of the loopback.
    pub loopback: Ports,
    /// Further places.
    pub places: HashSet<SocketAddr>,
}

/// Ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// All of them.
    All,
    /// These.
    Only(BTreeSet<u16>),
}

impl Default for MayDeliver {
    fn default() -> Self {
        Self { loopback: Ports::All, places: HashSet::new() }
    }
}

impl MayDeliver {
    /// Where a stream is to go: addresses to try, one after the other.
    fn targets(&self, delivery: &Delivery) -> Result<Vec<SocketAddr>, Refusal> {
        let Delivery { address, port, .. } = *delivery;
        let is_loopback = address.is_none_or(|address| address.is_loopback());
        let is_named = address.is_some_and(|address| self.places.contains(&SocketAddr::new(address, port)));
        let may = match &self.loopback {
            _ if is_named => true,
            _ if !is_loopback => false,
            Ports::All => true,
            Ports::Only(ports) => ports.contains(&port),
        };
        if !may || port == 0 {
            let host = address.map_or("localhost".to_owned(), |address| address.to_string());
            return Err(Refusal::new(
                Cause::Denied,
                format!("the laptop does not take streams to {host} port {port}"),
            ));
        }
        let hosts = match address {
            Some(address) => vec![address],
            // A program that listens on localhost listens on one of them, or on both.
            None => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        };
        Ok(hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect())
    }
}

/// Places for streams from the cluster.
pub(super) struct Places(Arc<Budget<()>>);

impl Default for Places {
    fn default() -> Self {
        Self(Budget::new(MOST.min(capacity::descriptors() / 2)))
    }
}

/// Takes what the hub opens on one link.
pub(super) struct Deliveries(pub(super) Weak<Laptop>);

impl Handler for Deliveries {
    fn opened(&self, incoming: Incoming<'_>) {
        let Some(laptop) = self.0.upgrade() else { return };
        let Some(Request::Deliver(delivery)) = Request::decode(incoming.request()) else {
            return incoming
                .refuse("failed: the laptop does not know this request: is it of an older release?");
        };
        let targets = match read(&laptop.may_deliver).targets(&delivery) {
            Ok(targets) => targets,
            Err(refusal) => return incoming.refuse(&refusal.to_string()),
        };
        let all = &laptop.places.0;
        let Some(place) = all.take_within((), 1, Some(all.limit())) else {
            return incoming.refuse("busy: the laptop has as many streams as it may have");
        };
        let client = delivery.client.ip();
        if incoming.is_flow() {
            let target = targets[0];
            datagrams::accept(
                incoming,
                flow_settings(&laptop.traffic, client),
                async move { Ok(target) },
                place,
            );
        } else {
            let stream = incoming.accept(stream_settings(&laptop.traffic, client));
            tokio::spawn(carry(stream, targets, place));
        }
    }
}

async fn carry(mut stream: Stream, targets: Vec<SocketAddr>, place: Share<()>) {
    match connect(&targets).await {
        Ok(socket) => {
            if say_connected(&mut stream).await.is_ok() {
                stream.relay(socket).await;
            }
        }
        Err(refusal) => stream.refuse(refusal.to_string()),
    }
    drop(place);
}

/// Connects to the first target that answers; the first one's failure is the one that is told.
async fn connect(targets: &[SocketAddr]) -> Result<TcpStream, Refusal> {
    let mut refusal = None;
    for target in targets {
        match causeway_link::connect(*target, CONNECT / targets.len() as u32).await {
            Ok(socket) => return Ok(socket),
            Err(error) => {
                refusal.get_or_insert_with(|| Refusal::of(target, &error));
            }
        }
    }
    Err(refusal.unwrap_or_else(|| Refusal::of("the laptop", &io::ErrorKind::NotFound.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(may: &MayDeliver, address: Option<&str>, port: u16) -> Option<Vec<String>> {
        let address = address.map(|address| address.parse().unwrap());
        let delivery = Delivery { address, port, client: ([10, 0, 0, 7], 4000).into() };
        may.targets(&delivery).ok().map(|all| all.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_laptops_own_loopback_is_what_may_be_reached() {
        let may = MayDeliver::default();
        let own = |port| Some(vec![format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
        assert_eq!(targets(&may, None, 3000), own(3000));
        assert_eq!(targets(&may, Some("127.0.0.1"), 3000), Some(vec!["127.0.0.1:3000".to_owned()]));
        assert_eq!(targets(&may, Some("192.168.1.7"), 3000), None);
        assert_eq!(targets(&may, None, 0), None);
    }

    #[test]
    fn the_user_may_say_which_ports_and_which_addresses() {
        let places = ["192.168.1.7:80".parse().unwrap(), "127.0.0.1:4000".parse().unwrap()];
        let may = MayDeliver { loopback: Ports::Only([3000].into()), places: places.into() };
        assert!(targets(&may, None, 3000).is_some() && targets(&may, Some("::1"), 3000).is_some());
        assert!(targets(&may, None, 3001).is_none() && targets(&may, Some("127.0.0.1"), 3001).is_none());
        assert_eq!(targets(&may, Some("192.168.1.7"), 80), Some(vec!["192.168.1.7:80".to_owned()]));
        assert!(targets(&may, Some("192.168.1.8"), 80).is_none());
        assert!(targets(&may, Some("192.168.1.7"), 22).is_none(), "another port of it");
        assert!(targets(&may, Some("127.0.0.1"), 4000).is_some());
        assert!(targets(&may, Some("127.0.0.1"), 2375).is_none(), "another port of it");
    }
}
