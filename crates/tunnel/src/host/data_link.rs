//! The host's data links to the client end, made again whenever they break.

use std::net::SocketAddr;
use std::sync::Arc;

use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_link::{Link, dial};
use tokio::sync::watch;
use tokio::time::sleep;

use super::HostEnd;
use super::open::Streams;
use super::session::{BACKOFF, Ended};
use crate::driven::Driven;
use crate::{CLIENT, host_identity};

/// Keeps one data link for as long as the session lasts. When it is renewed, a new one takes the place of the old
/// before the old one leaves, and the old one ends with its last stream.
pub(super) async fn keep(
    end: Arc<HostEnd>,
    address: SocketAddr,
    session: String,
    mut renewals: watch::Receiver<()>,
) {
    let mut retries = BACKOFF.retries();
    let mut current: Option<Driven> = None;
    let mut leaving: Vec<Driven> = Vec::new();
    loop {
        match connect(&end, address, &session).await {
            Ok(driven) => {
                retries.reset();
                if let Some(old) = current.replace(driven) {
                    old.link.leave();
                    leaving.push(old);
                }
                leaving.retain(|old| !old.has_ended());
            }
            Err(error) => {
                tracing::debug!(failures = retries.failures(), error = chain(&error), "no data connection");
                sleep(retries.next_delay()).await;
                continue;
            }
        }
        let Some(driven) = current.as_mut() else { continue };
        tokio::select! {
            () = driven.ended() => {
                current = None;
                sleep(retries.next_delay()).await;
            }
            renewed = renewals.changed() => {
                if renewed.is_err() {
                    return;
                }
            }
        }
    }
}

async fn connect(end: &Arc<HostEnd>, address: SocketAddr, session: &str) -> Result<Driven, Ended> {
    // A fresh key for every connection.
    let identity = host_identity(&end.authority)?;
    let connection = dial(address, &identity, CLIENT, session.as_bytes())
        .await
        .map_err(|source| Ended::Connect { address, source })?;
    let handler = Arc::new(Streams(Arc::downgrade(end)));
    Ok(Driven::start(connection, handler, &end.tasks, |link| Registered::new(end, link)))
}

/// A link that the host end knows of; forgotten however its task ends.
struct Registered {
    end: Arc<HostEnd>,
    link: Arc<Link>,
}

impl Registered {
    fn new(end: &Arc<HostEnd>, link: &Arc<Link>) -> Self {
        lock(&end.links).push(link.clone());
        end.links_changed();
        Self { end: end.clone(), link: link.clone() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.end.links).retain(|known| !Arc::ptr_eq(known, &self.link));
        self.end.links_changed();
    }
}
