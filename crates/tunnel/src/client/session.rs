//! One control connection of the host, from its first word to its last.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_link::{Connection, Handler, IdentityError, Incoming, Renewal, Stream};
use tokio::io::split;
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};

use super::ClientEnd;
use crate::control::{self, PATIENCE, ToClient, ToHost, VERSION, messages, receive, send};
use crate::driven::Driven;

/// How often ports are tried that could not be had.
const RETRY: Duration = Duration::from_millis(500);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error("the host speaks version {0} of the protocol, this end {VERSION}: recreate the container")]
    Version(u32),
    #[error("the host began with something else than a greeting")]
    Greeting,
    #[error("nothing was heard from the host")]
    Silent,
    #[error("another control connection has taken over")]
    Replaced,
    #[error("can't renew the identity")]
    Identity(#[from] IdentityError),
}

/// Does what the host says until the connection ends.
pub(super) async fn run(end: &Arc<ClientEnd>, connection: Connection) {
    let (stream_tx, stream_rx) = oneshot::channel();
    let handler = Arc::new(ControlStream(Mutex::new(Some(stream_tx))));
    let _link = Driven::start(connection, handler, &end.tasks, |_| ());
    let Err(ended) = serve(end, stream_rx).await;
    tracing::info!(reason = chain(&ended), "the host's control connection ended");
}

/// Takes the one stream that the host opens on the link for control.
struct ControlStream(Mutex<Option<oneshot::Sender<Stream>>>);

impl Handler for ControlStream {
    fn opened(&self, incoming: Incoming<'_>) {
        match lock(&self.0).take() {
            // Nobody waits for it any more if this fails, and the link is about to end.
            Some(stream_tx) => drop(stream_tx.send(incoming.accept(control::settings()))),
            None => incoming.refuse("the control stream is open already"),
        }
    }
}

async fn serve(end: &Arc<ClientEnd>, stream_rx: oneshot::Receiver<Stream>) -> Result<Infallible, Ended> {
    let stream = timeout(PATIENCE, stream_rx).await.ok().and_then(Result::ok).ok_or(Ended::Silent)?;
    let (mut input, mut output) = split(stream);
    let hello = timeout(PATIENCE, receive(&mut input)).await.map_err(|_| Ended::Silent)??;
    let ToClient::Hello { version, session } = hello else { return Err(Ended::Greeting) };
    if version != VERSION {
        send(&mut output, &ToHost::Welcome { version: VERSION, session: String::new() }).await?;
        return Err(Ended::Version(version));
    }
    let turn = end.begin(session)?;
    send(&mut output, &ToHost::Welcome { version: VERSION, session: turn.session.clone() }).await?;
    tracing::info!("the host is connected");
    let mut messages = messages(input);
    let mut changed = end.changed.subscribe();
    changed.mark_changed();
    let mut retry = interval(RETRY);
    let mut renewal = None;
    let mut limited = Vec::new();
    loop {
        let said = tokio::select! {
            message = messages.next() => heed(end, message?, &mut renewal)?,
            _ = changed.changed() => Some(report(end)),
            _ = retry.tick() => {
                let (had, now) = (end.entrances.retry(end), end.entrances.limited());
                if had || limited != now {
                    limited = now;
                    end.changed.send_replace(());
                }
                None
            }
            () = turn.control.cancelled() => return Err(Ended::Replaced),
        };
        if let Some(said) = said {
            send(&mut output, &said).await?;
        }
    }
}

/// Does what one message says; gives the answer, if it has one.
fn heed(
    end: &Arc<ClientEnd>,
    message: ToClient,
    renewal: &mut Option<Renewal>,
) -> Result<Option<ToHost>, Ended> {
    match message {
        ToClient::Carry { tunnels } => {
            end.entrances.apply(end, tunnels);
            end.changed.send_replace(());
        }
        ToClient::Gate { tunnel, open } => {
            end.entrances.gate(end, tunnel, open);
            end.changed.send_replace(());
        }
        ToClient::Renew => {
            let (pem, waiting) = lock(&end.identity).request()?;
            *renewal = Some(waiting);
            return Ok(Some(ToHost::Request { pem }));
        }
        ToClient::Certificate { pem } => {
            if let Some(waiting) = renewal.take() {
                end.renewed(waiting.signed(pem))?;
                tracing::info!("the identity was renewed");
            }
        }
        ToClient::Hello { .. } => return Err(Ended::Greeting),
    }
    Ok(None)
}

fn report(end: &ClientEnd) -> ToHost {
    ToHost::Report {
        links: end.usable_links(),
        tunnels: end.entrances.report(),
        limited: end.entrances.limited(),
    }
}
