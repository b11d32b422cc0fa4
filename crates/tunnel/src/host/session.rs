//! The host's control connection to the client end, made again whenever it breaks, and what is said on it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::Backoff;
use causeway_base::report::chain;
use causeway_ir::tunnel::TunnelId;
use causeway_link::{IdentityError, Role, Unusable, dial};
use tokio::io::split;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{HostEnd, LinkState, Observed, data_link};
use crate::control::{self, Listen, Listener, PATIENCE, ToClient, ToHost, VERSION, messages, receive, send};
use crate::driven::{Driven, NoStreams};
use crate::{CLIENT, host_identity};

/// The pauses between attempts.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(800));

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("can't reach the client end at {address}")]
    Connect { address: SocketAddr, source: causeway_link::Error },
    #[error("the client end speaks version {0} of the protocol, this end {VERSION}: recreate the container")]
    Version(u32),
    #[error("the client end did not answer the greeting")]
    Greeting,
    #[error(transparent)]
    Link(#[from] Unusable),
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// How long a tunnel that goes on carrying may be said to do so while nothing is heard on its control connection.
const UNHEARD: Duration = Duration::from_secs(10);

/// What outlives a control connection: one that breaks for itself does not take the streams along.
struct Lasting {
    session: String,
    _data_links: JoinSet<()>,
    renew: watch::Sender<()>,
}

impl Lasting {
    fn start(end: &Arc<HostEnd>, data: SocketAddr, session: String) -> Self {
        let (renew, renewals) = watch::channel(());
        let mut data_links = JoinSet::new();
        for _ in 0..end.data_links {
            data_links.spawn(data_link::keep(end.clone(), data, session.clone(), renewals.clone()));
        }
        Self { session, _data_links: data_links, renew }
    }
}

/// Keeps a session with the client end for ever.
pub(super) async fn keep(end: Arc<HostEnd>, mut addresses: watch::Receiver<(SocketAddr, SocketAddr)>) {
    let mut attempt = 0;
    let mut heard = Instant::now();
    let mut lasting = None;
    loop {
        let (control, data) = *addresses.borrow_and_update();
        let ended = tokio::select! {
            ended = session(&end, control, data, &mut attempt, &mut lasting) => ended,
            moved = addresses.changed() => {
                if moved.is_err() {
                    return;
                }
                lasting = None;
                end.observe(|observed| *observed = Observed::default());
                continue;
            }
        };
        let Err(ended) = ended;
        if attempt == 0 {
            heard = Instant::now();
        }
        attempt += 1;
        let error = chain(&ended);
        tracing::debug!(attempt, error, "no link to the client end");
        let carries = end.has_links() && heard.elapsed() < UNHEARD;
        end.observe(|observed| {
            if !carries || observed.link != LinkState::Up {
                observed.links_there = 0;
                observed.link = LinkState::Connecting { attempt, error: Some(error) };
            }
        });
        tokio::select! {
            () = sleep(BACKOFF.delay(attempt)) => {}
            moved = addresses.changed() => {
                if moved.is_err() {
                    return;
                }
            }
        }
    }
}

/// One control connection from greeting to end. The data links of its session go on after it, and before it if the
/// client end knows the session still.
async fn session(
    end: &Arc<HostEnd>,
    control: SocketAddr,
    data: SocketAddr,
    attempt: &mut u32,
    lasting: &mut Option<Lasting>,
) -> Result<Infallible, Ended> {
    let identity = host_identity(&end.authority)?;
    let connection = dial(control, &identity, CLIENT, b"control")
        .await
        .map_err(|source| Ended::Connect { address: control, source })?;
    let mut renew_at = Instant::now() + connection.peer_until_age(end.renewal);
    let link = Driven::start(connection, Arc::new(NoStreams), &end.tasks, |_| ());
    let (mut input, mut output) = split(link.link.open(b"control", control::settings())?);
    let session = lasting.as_ref().map(|lasting| lasting.session.clone());
    send(&mut output, &ToClient::Hello { version: VERSION, session }).await?;
    let welcome = timeout(PATIENCE, receive(&mut input)).await.map_err(|_| Ended::Greeting)??;
    let ToHost::Welcome { version, session } = welcome else { return Err(Ended::Greeting) };
    if version != VERSION {
        return Err(Ended::Version(version));
    }
    // Told before the data links are there: the ports are bound meanwhile.
    let mut changed = end.changed.subscribe();
    let mut told = end.listens();
    if let Some(tunnels) = told.clone() {
        send(&mut output, &ToClient::Carry { tunnels }).await?;
    }
    let lasting = match lasting {
        Some(lasting) if lasting.session == session => lasting,
        other => {
            // The links of an older session end here, and what its client end said is not true of this one.
            end.observe(|observed| {
                observed.listeners.clear();
                observed.links_there = 0;
                observed.weigh(false);
            });
            other.insert(Lasting::start(end, data, session))
        }
    };
    let mut messages = messages(input);
    loop {
        let said = tokio::select! {
            message = messages.next() => match message? {
                ToHost::Report { links, tunnels, limited } => {
                    if links > 0 {
                        *attempt = 0;
                    }
                    reported(end, links, tunnels, limited);
                    Vec::new()
                }
                ToHost::Request { pem } => {
                    let pem = end.authority.renew(&pem, Role::Listener, CLIENT)?;
                    // The next handshakes use it.
                    lasting.renew.send_replace(());
                    vec![ToClient::Certificate { pem }]
                }
                ToHost::Welcome { .. } => return Err(Ended::Greeting),
            },
            _ = changed.changed() => {
                let wanted = end.listens();
                let said = changes(told.as_deref(), wanted.as_deref());
                told = wanted;
                said
            }
            () = sleep_until(renew_at) => {
                renew_at = Instant::now() + end.renewal;
                vec![ToClient::Renew]
            }
        };
        for message in said {
            send(&mut output, &message).await?;
        }
    }
}

fn reported(
    end: &HostEnd,
    links: usize,
    tunnels: Vec<(TunnelId, Result<Listener, String>)>,
    limited: Vec<(TunnelId, u64)>,
) {
    end.observe(|observed| {
        observed.listeners = tunnels.into_iter().collect();
        observed.limited = limited.into_iter().collect();
        observed.links_there = links;
        observed.weigh(end.has_links());
    });
}

/// What to say so that the client end comes from what it was told to what is wanted.
fn changes(told: Option<&[Listen]>, wanted: Option<&[Listen]>) -> Vec<ToClient> {
    let Some(wanted) = wanted.filter(|_| told != wanted) else { return Vec::new() };
    let Some(told) = told else { return vec![ToClient::Carry { tunnels: wanted.to_vec() }] };
    let known: BTreeMap<TunnelId, &Listen> = told.iter().map(|listen| (listen.id, listen)).collect();
    let same_but_gate = |new: &&Listen| {
        known.get(&new.id).is_some_and(|old| Listen { open: new.open, ..(*old).clone() } == **new)
    };
    if told.len() != wanted.len() || !wanted.iter().all(|new| same_but_gate(&new)) {
        return vec![ToClient::Carry { tunnels: wanted.to_vec() }];
    }
    let turned = |new: &&Listen| known.get(&new.id).is_some_and(|old| old.open != new.open);
    wanted.iter().filter(turned).map(|new| ToClient::Gate { tunnel: new.id, open: new.open }).collect()
}
