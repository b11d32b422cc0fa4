//! One control connection of the host, from its first word to its last.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_link::{Connection, Handler, IdentityError, Incoming, Renewal, Stream, token};
use tokio::io::split;
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;

use super::ContainerEnd;
use crate::control::{self, PATIENCE, ToContainer, ToHost, VERSION, messages, receive, send};
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
pub(super) async fn run(end: &Arc<ContainerEnd>, connection: Connection) {
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

async fn serve(end: &Arc<ContainerEnd>, stream_rx: oneshot::Receiver<Stream>) -> Result<Infallible, Ended> {
    let stream = timeout(PATIENCE, stream_rx).await.ok().and_then(Result::ok).ok_or(Ended::Silent)?;
    let (mut input, mut output) = split(stream);
    let hello = timeout(PATIENCE, receive(&mut input)).await.map_err(|_| Ended::Silent)??;
    let ToContainer::Hello { version } = hello else { return Err(Ended::Greeting) };
    let session = token()?;
    send(&mut output, &ToHost::Welcome { version: VERSION, session: session.clone() }).await?;
    if version != VERSION {
        return Err(Ended::Version(version));
    }
    let turn = Turn { end: end.clone(), over: end.begin(session.clone()), session };
    tracing::info!("the host is connected");
    let mut messages = messages(input);
    let mut changed = end.changed.subscribe();
    changed.mark_changed();
    let mut retry = interval(RETRY);
    let mut renewal = None;
    loop {
        let said = tokio::select! {
            message = messages.next() => heed(end, message?, &mut renewal)?,
            _ = changed.changed() => Some(report(end)),
            _ = retry.tick() => {
                if end.entrances.retry(end) {
                    end.changed.send_replace(());
                }
                None
            }
            () = turn.over.cancelled() => return Err(Ended::Replaced),
        };
        if let Some(said) = said {
            send(&mut output, &said).await?;
        }
    }
}

/// Does what one message says; gives the answer, if it has one.
fn heed(
    end: &Arc<ContainerEnd>,
    message: ToContainer,
    renewal: &mut Option<Renewal>,
) -> Result<Option<ToHost>, Ended> {
    match message {
        ToContainer::Carry { tunnels } => {
            end.entrances.apply(end, tunnels);
            end.changed.send_replace(());
        }
        ToContainer::Gate { tunnel, open } => {
            end.entrances.gate(end, tunnel, open);
            end.changed.send_replace(());
        }
        ToContainer::Renew => {
            let (pem, waiting) = lock(&end.identity).request()?;
            *renewal = Some(waiting);
            return Ok(Some(ToHost::Request { pem }));
        }
        ToContainer::Certificate { pem } => {
            if let Some(waiting) = renewal.take() {
                end.renewed(waiting.signed(pem))?;
                tracing::info!("the identity was renewed");
            }
        }
        ToContainer::Hello { .. } => return Err(Ended::Greeting),
    }
    Ok(None)
}

fn report(end: &ContainerEnd) -> ToHost {
    ToHost::Report { links: end.usable_links(), tunnels: end.entrances.report() }
}

/// The session in charge; gives up its place when it ends, however it ends.
struct Turn {
    end: Arc<ContainerEnd>,
    session: String,
    over: CancellationToken,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end.finish(&self.session);
    }
}
