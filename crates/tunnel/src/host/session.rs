//! The host's control connection to the container, made again whenever it breaks, and what is said on it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::Backoff;
use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_ir::tunnel::TunnelId;
use causeway_link::{IdentityError, Role, Unusable, dial};
use tokio::io::split;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{HostEnd, LinkState, Observed, data_link};
use crate::control::{
    self, Listen, Listener, PATIENCE, ToContainer, ToHost, VERSION, messages, receive, send,
};
use crate::driven::{Driven, NoStreams};
use crate::{CONTAINER, host_identity};

/// The pauses between attempts.
pub(super) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(800));

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("can't reach the container at {address}")]
    Connect { address: SocketAddr, source: causeway_link::Error },
    #[error("the container speaks version {0} of the protocol, this end {VERSION}: recreate the container")]
    Version(u32),
    #[error("the container did not answer the greeting")]
    Greeting,
    #[error(transparent)]
    Link(#[from] Unusable),
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Keeps a session with the container for ever.
pub(super) async fn keep(end: Arc<HostEnd>, mut addresses: watch::Receiver<(SocketAddr, SocketAddr)>) {
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
            () = sleep(BACKOFF.delay(attempt)) => {}
            moved = addresses.changed() => {
                if moved.is_err() {
                    return;
                }
            }
        }
    }
}

/// One control connection from greeting to end, with the data links that belong to it.
async fn session(
    end: &Arc<HostEnd>,
    control: SocketAddr,
    data: SocketAddr,
    attempt: &mut u32,
) -> Result<Infallible, Ended> {
    let identity = host_identity(&end.authority)?;
    let connection = dial(control, &identity, CONTAINER, b"control")
        .await
        .map_err(|source| Ended::Connect { address: control, source })?;
    let link = Driven::start(connection, Arc::new(NoStreams), &end.tasks, |_| ());
    let (mut input, mut output) = split(link.link.open(b"control", control::settings())?);
    send(&mut output, &ToContainer::Hello { version: VERSION }).await?;
    let welcome = timeout(PATIENCE, receive(&mut input)).await.map_err(|_| Ended::Greeting)??;
    let ToHost::Welcome { version, session } = welcome else { return Err(Ended::Greeting) };
    if version != VERSION {
        return Err(Ended::Version(version));
    }
    // Told before the data links are there: the ports are bound meanwhile.
    let mut changed = end.changed.subscribe();
    let mut told = end.listens();
    if let Some(tunnels) = told.clone() {
        send(&mut output, &ToContainer::Carry { tunnels }).await?;
    }
    let (renew, renewals) = watch::channel(());
    let mut data_links = JoinSet::new();
    for _ in 0..end.data_links {
        data_links.spawn(data_link::keep(end.clone(), data, session.clone(), renewals.clone()));
    }
    let mut messages = messages(input);
    loop {
        let renew_at = *lock(&end.renew_at);
        let said = tokio::select! {
            message = messages.next() => match message? {
                ToHost::Report { links, tunnels } => {
                    if links > 0 {
                        *attempt = 0;
                    }
                    reported(end, links, tunnels);
                    Vec::new()
                }
                ToHost::Request { pem } => {
                    let pem = end.authority.renew(&pem, Role::Listener, CONTAINER)?;
                    // The next handshakes use it.
                    renew.send_replace(());
                    vec![ToContainer::Certificate { pem }]
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
                *lock(&end.renew_at) = Instant::now() + end.renewal;
                vec![ToContainer::Renew]
            }
        };
        for message in said {
            send(&mut output, &message).await?;
        }
    }
}

fn reported(end: &HostEnd, links: usize, tunnels: Vec<(TunnelId, Result<Listener, String>)>) {
    end.observe(|observed| {
        observed.listeners = tunnels.into_iter().collect();
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
