//! What laptops ask of the cluster: streams and flows to places, and what names mean. Everything is held against
//! [`Reach`](super::Reach), on the address that is connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use causeway_base::{Budget, Share};
use causeway_link::Stream;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::Hub;
use super::places::Place as Room;
use crate::place::Place;
use crate::refusal::{Cause, Refusal};
use crate::request::{CONNECTED, say_connected};

/// How long one address has to answer.
const CONNECT: Duration = Duration::from_secs(3);
/// How many addresses of a name are tried.
const TRIES: usize = 3;
/// How long the system has to look a name up.
const LOOKUP: Duration = Duration::from_secs(5);
/// Names that are looked up at the same time, each by a thread.
const LOOKUPS: u64 = 64;
/// Addresses of a name that are told.
const ANSWERS: usize = 64;

/// Names that are being looked up.
pub(super) struct Lookups(Arc<Budget<Arc<str>>>);

impl Default for Lookups {
    fn default() -> Self {
        Self(Budget::new(LOOKUPS))
    }
}

/// Carries one stream of a laptop to a place.
pub(super) async fn carry(hub: Arc<Hub>, uid: Arc<str>, place: Place, mut stream: Stream, room: Room) {
    match connect(&hub, &uid, &place).await {
        Ok(socket) => {
            // What becomes of this stream does not need the hub any more.
            drop(hub);
            if say_connected(&mut stream).await.is_ok() {
                stream.relay(socket).await;
            }
        }
        Err(refusal) => {
            tracing::debug!(workstation = %uid, %place, %refusal, "refused");
            stream.refuse(refusal.to_string());
        }
    }
    drop(room);
}

/// Connects to a place, at the first of its addresses that answers.
pub(super) async fn connect(hub: &Hub, uid: &Arc<str>, place: &Place) -> Result<TcpStream, Refusal> {
    let mut refusal = None;
    for address in find(hub, uid, place).await?.into_iter().take(TRIES) {
        match causeway_link::connect(address, CONNECT).await {
            Ok(socket) => return Ok(socket),
            Err(error) => refusal = Some(Refusal::of(address, &error)),
        }
    }
    Err(refusal.unwrap_or_else(|| nobody(place)))
}

/// The first address of a place.
pub(super) async fn target(hub: Arc<Hub>, uid: Arc<str>, place: Place) -> Result<SocketAddr, Refusal> {
    find(&hub, &uid, &place).await?.into_iter().next().ok_or_else(|| nobody(&place))
}

/// Answers what a name means, an address a line.
pub(super) async fn answer(hub: Arc<Hub>, uid: Arc<str>, name: String, mut stream: Stream, room: Room) {
    match addresses(&hub, &uid, &name).await {
        Ok(addresses) => {
            let mut answer = vec![CONNECTED];
            for address in addresses.iter().take(ANSWERS) {
                answer.extend(format!("{address}\n").bytes());
            }
            // A laptop that does not wait for its answer does not get it.
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
        }
        Err(refusal) => stream.refuse(refusal.to_string()),
    }
    drop(room);
}

/// Where a place may be connected to, at least one address.
async fn find(hub: &Hub, uid: &Arc<str>, place: &Place) -> Result<Vec<SocketAddr>, Refusal> {
    match place {
        _ if place.port() == 0 => Err(Refusal::new(Cause::Failed, format!("{place}: there is no port 0"))),
        Place::Address(address) if hub.reach().allows(address.ip()) => Ok(vec![*address]),
        Place::Address(address) => Err(denied(&address.ip().to_string())),
        Place::Name(name, port) => {
            let addresses = addresses(hub, uid, name).await?;
            Ok(addresses.into_iter().map(|address| SocketAddr::new(address, *port)).collect())
        }
    }
}

/// The addresses of a name that may be reached, at least one.
async fn addresses(hub: &Hub, uid: &Arc<str>, name: &str) -> Result<Vec<IpAddr>, Refusal> {
    let reach = hub.reach();
    let mut addresses = match reach.named(name) {
        Some(addresses) => addresses.to_vec(),
        None if reach.outside_names => hub.lookups.look_up(uid, name).await?,
        None => return Err(unknown(name)),
    };
    if addresses.is_empty() {
        return Err(Refusal::new(Cause::Refused, format!("{name} has no address")));
    }
    addresses.retain(|address| reach.allows(*address));
    if addresses.is_empty() { Err(denied(name)) } else { Ok(addresses) }
}

impl Lookups {
    /// Asks the system for the addresses of a name.
    async fn look_up(&self, uid: &Arc<str>, name: &str) -> Result<Vec<IpAddr>, Refusal> {
        let busy = || Refusal::new(Cause::Busy, "too many names are being looked up");
        let room: Share<_> = self.0.take(uid.clone(), 1).ok_or_else(busy)?;
        let name_asked = name.to_owned();
        // A task of its own, since nothing ends the thread that asks; its place is free when it has its answer.
        let asking = tokio::spawn(async move {
            let found = ask_system(&name_asked).await;
            drop(room);
            found
        });
        match timeout(LOOKUP, asking).await {
            Ok(Ok(Ok(mut found))) => {
                found.dedup();
                Ok(found)
            }
            Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::TimedOut => Err(Refusal::of(name, &error)),
            Ok(_) => Err(unknown(name)),
            Err(_) => Err(Refusal::new(Cause::Timeout, format!("{name}: no answer from the name servers"))),
        }
    }
}

/// With a dot at its end first: what is searched for where this process runs is not what the laptop means. Files of hosts have
/// names without it.
async fn ask_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let ask = async |name: String| Ok(lookup_host((name, 0)).await?.map(|found| found.ip()).collect());
    if name == "localhost" {
        return ask(name.to_owned()).await;
    }
    match ask(format!("{name}.")).await {
        Err(_) if name.contains('.') => ask(name.to_owned()).await,
        found => found,
    }
}

fn unknown(name: &str) -> Refusal {
    Refusal::new(Cause::UnknownName, format!("{name}: the cluster knows no such name"))
}

fn denied(what: &str) -> Refusal {
    let text = format!("{what} may not be reached from a workstation: the cluster's settings say what may");
    Refusal::new(Cause::Denied, text)
}

fn nobody(place: &Place) -> Refusal {
    Refusal::new(Cause::Refused, format!("{place} has no address"))
}
