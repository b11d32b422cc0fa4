//! One control connection of the host, from its first word to its last.

use std::sync::Arc;

use tokio::io::split;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::ContainerEnd;
use crate::control::{self, BEAT, PATIENCE, ToContainer, ToHost, VERSION, receive, send};
use crate::identity::{self, Renewal};
use crate::mux::lock;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error("the host speaks version {0} of the protocol, this end {VERSION}: rebuild the container's image")]
    Version(u32),
    #[error("the host began with something else than a greeting")]
    Greeting,
    #[error("nothing was heard from the host")]
    Silent,
    #[error("another control connection has taken over")]
    Replaced,
    #[error("can't renew the identity")]
    Identity(#[from] identity::Error),
}

/// Does what the host says until the connection ends.
pub async fn run(end: &Arc<ContainerEnd>, stream: TlsStream<TcpStream>) {
    let Err(ended) = serve(end, stream).await;
    let error: &dyn std::error::Error = &ended;
    tracing::info!(reason = error, "the host's control connection ended");
}

async fn serve(
    end: &Arc<ContainerEnd>,
    stream: TlsStream<TcpStream>,
) -> Result<std::convert::Infallible, Ended> {
    let (mut input, mut output) = split(stream);
    let hello = timeout(PATIENCE, receive(&mut input)).await.map_err(|_| Ended::Silent)??;
    let ToContainer::Hello { version } = hello else { return Err(Ended::Greeting) };
    let session = identity::token()?;
    send(&mut output, &ToHost::Welcome { version: VERSION, session: session.clone() }).await?;
    if version != VERSION {
        return Err(Ended::Version(version));
    }
    let turn = Turn { end: end.clone(), over: end.begin(session.clone()), session };
    tracing::info!("the host is connected");
    // A task of its own, since a message that is half read must not be given up.
    let (heard, mut messages) = mpsc::channel(16);
    let _reader = Abort(tokio::spawn(async move {
        loop {
            let message = receive::<ToContainer>(&mut input).await;
            let failed = message.is_err();
            if heard.send(message).await.is_err() || failed {
                return;
            }
        }
    }));
    let mut changed = end.changed.subscribe();
    changed.mark_changed();
    let mut beat = interval(BEAT);
    let mut renewal = None;
    loop {
        let said = tokio::select! {
            message = timeout(PATIENCE, messages.recv()) => {
                let message = message.ok().flatten().ok_or(Ended::Silent)??;
                heed(end, message, &mut renewal)?
            }
            _ = changed.changed() => Some(report(end)),
            _ = beat.tick() => {
                if end.entrances.retry(end) {
                    end.changed.send_replace(());
                }
                Some(ToHost::Beat)
            }
            () = turn.over.cancelled() => return Err(Ended::Replaced),
        };
        if let Some(said) = said {
            timeout(PATIENCE, send(&mut output, &said)).await.map_err(|_| Ended::Silent)??;
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
        ToContainer::Beat => {}
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

struct Abort(JoinHandle<()>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}
