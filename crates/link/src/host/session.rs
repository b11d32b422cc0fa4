//! The host's connections to the container: one for control, some for data, made again whenever they break.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::split;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, interval, interval_at, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{DataSide, HostEnd, LinkState, Observed};
use crate::control::{self, BEAT, Door, Listen, PATIENCE, ToContainer, ToHost, VERSION, receive, send};
use crate::driver::Driver;
use crate::frame::Frame;
use crate::identity::{self, End, container_name};
use crate::mux::{Link, lock};
use crate::socket;
use crate::tunnel::TunnelId;

/// How long one attempt to connect may take: a way that is free answers at once, and a lost packet is soon sent again.
const CONNECT: Duration = Duration::from_secs(1);
const HANDSHAKE: Duration = Duration::from_secs(3);
/// The pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(800);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("can't connect to the container at {address}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("the handshake with the container at {address} failed")]
    Handshake { address: SocketAddr, source: io::Error },
    #[error(
        "the container speaks version {0} of the protocol, this end {VERSION}: its image is to be built anew"
    )]
    Version(u32),
    #[error("the container did not answer the greeting")]
    Greeting,
    #[error("nothing was heard from the container for {} s", PATIENCE.as_secs())]
    Silent,
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error(transparent)]
    Identity(#[from] identity::Error),
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Keeps a session with the container for ever.
pub async fn keep(end: Arc<HostEnd>, mut addresses: watch::Receiver<(SocketAddr, SocketAddr)>) {
    let mut attempt = 0;
    loop {
        let (control, data) = *addresses.borrow_and_update();
        let ended = tokio::select! {
            ended = session(&end, control, data, &mut attempt) => ended,
            moved = addresses.changed() => {
                if moved.is_err() {
                    return;
                }
                end.observe(|observed| *observed = Observed::default());
                continue;
            }
        };
        let Err(ended) = ended;
        attempt += 1;
        let error = chain(&ended);
        tracing::debug!(attempt, error, "no link to the container");
        end.observe(|observed| {
            observed.link = LinkState::Connecting { attempt, error: Some(error) };
        });
        tokio::select! {
            () = sleep(pause(attempt)) => {}
            moved = addresses.changed() => {
                if moved.is_err() {
                    return;
                }
            }
        }
    }
}

/// Longer with every failure, and never quite the same.
fn pause(attempt: u32) -> Duration {
    let doubled = FIRST_PAUSE * 2_u32.saturating_pow(attempt.saturating_sub(1).min(10));
    let jitter = RandomState::new().hash_one(attempt) % 256;
    doubled.min(LAST_PAUSE).mul_f64(0.75 + jitter as f64 / 1024.0)
}

async fn connect(end: &HostEnd, address: SocketAddr) -> Result<TlsStream<TcpStream>, Ended> {
    let socket =
        socket::connect(address, CONNECT).await.map_err(|source| Ended::Connect { address, source })?;
    // A fresh key for every connection.
    let config = end.authority.issue(End::Host)?.client_config()?;
    timeout(HANDSHAKE, TlsConnector::from(config).connect(container_name(), socket))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|source| Ended::Handshake { address, source })
}

/// One control connection from greeting to end, with the data connections that belong to it.
async fn session(
    end: &Arc<HostEnd>,
    control: SocketAddr,
    data: SocketAddr,
    attempt: &mut u32,
) -> Result<Infallible, Ended> {
    let (mut input, mut output) = split(connect(end, control).await?);
    send(&mut output, &ToContainer::Hello { version: VERSION }).await?;
    let welcome = timeout(PATIENCE, receive(&mut input)).await.map_err(|_| Ended::Silent)??;
    let ToHost::Welcome { version, session } = welcome else { return Err(Ended::Greeting) };
    if version != VERSION {
        return Err(Ended::Version(version));
    }
    // Told before the data connections are there: the ports are bound meanwhile.
    let mut changed = end.changed.subscribe();
    let mut told = end.listens();
    if let Some(tunnels) = told.clone() {
        send(&mut output, &ToContainer::Carry { tunnels }).await?;
    }
    let (renew, renewals) = watch::channel(());
    let mut data_links = JoinSet::new();
    for _ in 0..end.data_links {
        data_links.spawn(keep_data_link(end.clone(), data, session.clone(), renewals.clone()));
    }
    // A task of its own, since a message that is half read must not be given up.
    let (heard, mut messages) = mpsc::channel(16);
    let _reader = Abort(tokio::spawn(async move {
        loop {
            let message = receive::<ToHost>(&mut input).await;
            let failed = message.is_err();
            if heard.send(message).await.is_err() || failed {
                return;
            }
        }
    }));
    let mut beat = interval(BEAT);
    let mut renewal = interval_at(Instant::now() + end.renewal, end.renewal);
    loop {
        let said = tokio::select! {
            message = timeout(PATIENCE, messages.recv()) => {
                match message.ok().flatten().ok_or(Ended::Silent)?? {
                    ToHost::Report { links, tunnels } => {
                        if links > 0 {
                            *attempt = 0;
                        }
                        reported(end, links, tunnels);
                        Vec::new()
                    }
                    ToHost::Request { pem } => {
                        let pem = end.authority.renew(&pem)?;
                        // The next handshakes use it.
                        renew.send_replace(());
                        vec![ToContainer::Certificate { pem }]
                    }
                    ToHost::Beat => Vec::new(),
                    ToHost::Welcome { .. } => return Err(Ended::Greeting),
                }
            }
            _ = changed.changed() => {
                let wanted = end.listens();
                let said = changes(told.as_deref(), wanted.as_deref());
                told = wanted;
                said
            }
            _ = beat.tick() => vec![ToContainer::Beat],
            _ = renewal.tick() => vec![ToContainer::Renew],
        };
        for message in said {
            timeout(PATIENCE, send(&mut output, &message)).await.map_err(|_| Ended::Silent)??;
        }
    }
}

fn reported(end: &HostEnd, links: usize, tunnels: Vec<(TunnelId, Result<Door, String>)>) {
    end.observe(|observed| {
        observed.doors = tunnels.into_iter().collect();
        if links > 0 {
            observed.link = LinkState::Up;
        } else if observed.link == LinkState::Up {
            let error = Some("the data connections are gone".to_owned());
            observed.link = LinkState::Connecting { attempt: 0, error };
        }
    });
}

/// What to say so that the container comes from what it was told to what is wanted.
fn changes(told: Option<&[Listen]>, wanted: Option<&[Listen]>) -> Vec<ToContainer> {
    let Some(wanted) = wanted.filter(|_| told != wanted) else { return Vec::new() };
    let Some(told) = told else { return vec![ToContainer::Carry { tunnels: wanted.to_vec() }] };
    let known: BTreeMap<TunnelId, &Listen> = told.iter().map(|listen| (listen.id, listen)).collect();
    let same_but_gate = |new: &&Listen| {
        known.get(&new.id).is_some_and(|old| Listen { open: new.open, ..(*old).clone() } == **new)
    };
    if told.len() != wanted.len() || !wanted.iter().all(|new| same_but_gate(&new)) {
        return vec![ToContainer::Carry { tunnels: wanted.to_vec() }];
    }
    let turned = |new: &&Listen| known.get(&new.id).is_some_and(|old| old.open != new.open);
    wanted.iter().filter(turned).map(|new| ToContainer::Gate { tunnel: new.id, open: new.open }).collect()
}

/// Keeps one data connection for as long as the session lasts. A new one takes the place of the old before the old
/// one leaves, and the old one ends with its last stream.
async fn keep_data_link(
    end: Arc<HostEnd>,
    address: SocketAddr,
    session: String,
    mut renewals: watch::Receiver<()>,
) {
    let mut attempt = 0;
    let mut current: Option<DataLink> = None;
    let mut leaving: Vec<DataLink> = Vec::new();
    loop {
        match DataLink::dial(&end, address, &session).await {
            Ok(link) => {
                attempt = 0;
                if let Some(old) = current.replace(link) {
                    // The container ends it, after all that it opened there before it heard this.
                    old.link.outbox.put(&Frame::Leave);
                    leaving.push(old);
                }
                leaving.retain(|old| !old.task.0.is_finished());
            }
            Err(error) => {
                attempt += 1;
                tracing::debug!(attempt, error = chain(&error), "no data connection");
                sleep(pause(attempt)).await;
                continue;
            }
        }
        let Some(link) = current.as_mut() else { continue };
        tokio::select! {
            _ = &mut link.task.0 => {
                current = None;
                attempt += 1;
                sleep(pause(attempt)).await;
            }
            renewed = renewals.changed() => {
                if renewed.is_err() {
                    return;
                }
            }
        }
    }
}

/// A data connection and the task that drives it.
struct DataLink {
    link: Arc<Link>,
    task: Abort,
}

impl DataLink {
    async fn dial(end: &Arc<HostEnd>, address: SocketAddr, session: &str) -> Result<Self, Ended> {
        let (socket, tls) = connect(end, address).await?.into_inner();
        let link = Arc::new(Link::default());
        link.outbox.put(&Frame::Hello { session: session.as_bytes() });
        link.outbox.put(&Frame::Ping);
        let driver = Driver::new(socket, tls.into(), link.clone(), Arc::new(DataSide(end.clone())));
        let registered = Registered::new(end, &link);
        let mut task = Abort(tokio::spawn(async move {
            let broken = driver.run().await;
            tracing::debug!(reason = chain(&broken), "a data connection ended");
            drop(registered);
        }));
        // Once it answers, the container has heard the greeting and puts clients on this link.
        tokio::select! {
            () = link.answered.notified() => Ok(Self { link, task }),
            _ = &mut task.0 => Err(Ended::Greeting),
            () = sleep(PATIENCE) => Err(Ended::Silent),
        }
    }
}

/// A link that the host's end knows of; closed and forgotten however its task ends.
struct Registered {
    end: Arc<HostEnd>,
    link: Arc<Link>,
}

impl Registered {
    fn new(end: &Arc<HostEnd>, link: &Arc<Link>) -> Self {
        lock(&end.links).push(link.clone());
        Self { end: end.clone(), link: link.clone() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.link.close();
        lock(&self.end.links).retain(|known| !Arc::ptr_eq(known, &self.link));
    }
}

/// A task that ends with whoever holds this.
struct Abort(JoinHandle<()>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}
