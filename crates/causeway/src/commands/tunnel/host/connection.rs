//! One operator's connection: it is told the status at once, whenever it changes and with every beat, so that it can tell a
//! process that hangs from one with nothing to say; and its requests are passed on.

use std::time::Duration;

use causeway_ir::tunnel::protocol::{LONGEST_LINE, Line, Order, Request, Status, id_of};
use futures::{SinkExt as _, StreamExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

/// The status is told at least this often.
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// A request, and where its answer goes.
pub(super) struct Asked {
    pub(super) order: Order,
    answer_tx: oneshot::Sender<bool>,
}

impl Asked {
    /// Answers; who asked may be gone.
    pub(super) fn answer(self, accepted: bool) {
        let _ = self.answer_tx.send(accepted);
    }
}

/// Serves until the operator leaves.
pub(super) async fn serve(
    stream: UnixStream,
    status_rx: watch::Receiver<Status>,
    asked_tx: mpsc::Sender<Asked>,
) {
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LONGEST_LINE));
    if let Err(error) = talk(&mut lines, status_rx, asked_tx).await {
        tracing::debug!(%error, "an operator's connection broke");
    }
}

async fn talk(
    lines: &mut Framed<UnixStream, LinesCodec>,
    mut status_rx: watch::Receiver<Status>,
    asked_tx: mpsc::Sender<Asked>,
) -> Result<(), LinesCodecError> {
    status_rx.mark_changed();
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = beat.tick() => status_rx.mark_changed(),
            changed = status_rx.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let status = status_rx.borrow_and_update().clone();
                beat.reset();
                send(lines, &Line::Status(Box::new(status))).await?;
            }
            line = lines.next() => {
                let Some(line) = line else { return Ok(()) };
                let line = line?;
                let Ok(request) = serde_json::from_str::<Request>(&line) else {
                    tracing::warn!(line, "an operator asks for something unknown");
                    if let Some(id) = id_of(&line) {
                        send(lines, &Line::Answer { id, accepted: false }).await?;
                    }
                    continue;
                };
                let (answer_tx, answer_rx) = oneshot::channel(); // process → connection
                if asked_tx.send(Asked { order: request.order, answer_tx }).await.is_err() {
                    return Ok(());
                }
                let accepted = answer_rx.await.unwrap_or(false);
                send(lines, &Line::Answer { id: request.id, accepted }).await?;
            }
        }
    }
}

async fn send(lines: &mut Framed<UnixStream, LinesCodec>, line: &Line) -> Result<(), LinesCodecError> {
    let text = serde_json::to_string(line).map_err(std::io::Error::from)?;
    lines.send(text).await
}
