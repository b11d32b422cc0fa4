//! What happens in a runtime, followed for as long as someone listens. When the runtime goes away the
//! listener is told once, and once more when it is back; what happened in between is asked for again.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::{EventMessage, EventMessageTypeEnum};
use bollard::query_parameters::EventsOptions;
use causeway_base::Backoff;
use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Error, ErrorKind, Runtime};

/// Between two looks at a quiet runtime, whether it still answers.
const LOOK: Duration = Duration::from_secs(10);
/// First and longest wait between two tries to get back.
const BACK: Backoff = Backoff::new(Duration::from_millis(100), LONGEST);
const LONGEST: Duration = Duration::from_secs(5);
/// Events that wait for a slow listener before the runtime is made to wait.
const QUEUE: usize = 256;

/// Something that happened. An event may come twice after a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Container {
        id: String,
        name: String,
        action: ContainerAction,
        /// With [`ContainerAction::Died`].
        exit_code: Option<i64>,
        labels: HashMap<String, String>,
    },
    /// Podman before version 5 tells only of attached and detached containers, not of networks made and removed.
    Network {
        /// The network's id; Podman gives none for attached containers.
        id: String,
        name: String,
        action: NetworkAction,
        /// The container that was attached or detached.
        container: Option<String>,
    },
    /// The runtime does not answer; said once until [`Event::Back`].
    Lost { why: String },
    /// It answers again, and events follow. Some may have been missed: look at what matters.
    Back,
}

/// What happened to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerAction {
    Created,
    Started,
    Died,
    Stopped,
    Killed,
    OutOfMemory,
    Removed,
    Renamed,
    Paused,
    Resumed,
    Other(String),
}

/// What happened to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkAction {
    Created,
    Attached,
    Detached,
    Removed,
    Other(String),
}

/// The events of a runtime; they end when this is dropped.
#[derive(Debug)]
pub struct Events {
    events_rx: mpsc::Receiver<Event>,
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events_rx.poll_recv(context)
    }
}

impl Events {
    /// The next event; none only when the program ends.
    pub async fn recv(&mut self) -> Option<Event> {
        self.events_rx.recv().await
    }
}

impl Runtime {
    /// Follows what happens to containers and networks from now on.
    pub fn events(&self) -> Events {
        // follower → listener
        let (events_tx, events_rx) = mpsc::channel(QUEUE);
        let runtime = self.clone();
        let since = SystemTime::now();
        tokio::spawn(async move {
            let closed = events_tx.clone();
            tokio::select! {
                () = follow(&runtime, since, &events_tx) => {}
                () = closed.closed() => {}
            }
        });
        Events { events_rx }
    }
}

/// Nobody listens any more.
struct Gone;

async fn follow(runtime: &Runtime, mut since: SystemTime, events_tx: &mpsc::Sender<Event>) {
    let mut retries = BACK.retries();
    loop {
        let began = Instant::now();
        let Ok(error) = subscribe(runtime, &mut since, events_tx).await else { return };
        if began.elapsed() > LONGEST {
            retries.reset();
        }
        if events_tx.send(Event::Lost { why: error.report() }).await.is_err() {
            return;
        }
        // An event that cannot be read would be read again for ever.
        if error.kind() == ErrorKind::Other {
            since = SystemTime::now();
        }
        loop {
            tokio::time::sleep(retries.next_delay()).await;
            if runtime.ping().await.is_ok() {
                break;
            }
        }
        if events_tx.send(Event::Back).await.is_err() {
            return;
        }
    }
}

/// Hands events on until the subscription breaks, and gives why it did.
async fn subscribe(
    runtime: &Runtime,
    since: &mut SystemTime,
    events_tx: &mpsc::Sender<Event>,
) -> Result<Error, Gone> {
    const WHAT: &str = "follow the runtime's events";
    let types = vec!["container".to_owned(), "network".to_owned()];
    let options = EventsOptions {
        since: Some(stamp(*since)),
        until: None,
        filters: Some(HashMap::from([("type".to_owned(), types)])),
    };
    let mut messages = std::pin::pin!(runtime.docker.events(Some(options)));
    let mut look = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(Ok(message)) => {
                    *since = after(&message).unwrap_or(*since);
                    if let Some(event) = translate(message) {
                        events_tx.send(event).await.map_err(|_| Gone)?;
                    }
                }
                Some(Err(error)) => return Ok(Error::new(WHAT, error)),
                None => {
                    return Ok(Error::invalid(WHAT, "the runtime closed the connection")
                        .with_kind(ErrorKind::Unreachable));
                }
            },
            _ = look.tick() => {
                if let Err(error) = runtime.ping().await {
                    return Ok(error);
                }
            }
        }
    }
}

/// Just after a message, so that it is not told twice.
fn after(message: &EventMessage) -> Option<SystemTime> {
    let nanos = u64::try_from(message.time_nano?).ok()?;
    Some(UNIX_EPOCH + Duration::from_nanos(nanos + 1))
}

/// Seconds with nine decimals, which both runtimes read.
fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}

fn translate(message: EventMessage) -> Option<Event> {
    let actor = message.actor.unwrap_or_default();
    let id = actor.id.unwrap_or_default();
    let mut attributes = actor.attributes.unwrap_or_default();
    let action = message.action.unwrap_or_default();
    let name = attributes.remove("name").unwrap_or_default();
    match message.typ? {
        EventMessageTypeEnum::CONTAINER => {
            let exit_code = ["exitCode", "containerExitCode"]
                .iter()
                .find_map(|key| attributes.get(*key))
                .and_then(|code| code.parse().ok());
            let action = match action.as_str() {
                "create" => ContainerAction::Created,
                "start" => ContainerAction::Started,
                "die" | "died" => ContainerAction::Died,
                "stop" => ContainerAction::Stopped,
                "kill" => ContainerAction::Killed,
                "oom" => ContainerAction::OutOfMemory,
                "destroy" | "remove" => ContainerAction::Removed,
                "rename" => ContainerAction::Renamed,
                "pause" => ContainerAction::Paused,
                "unpause" => ContainerAction::Resumed,
                _ => ContainerAction::Other(action),
            };
            let exit_code = exit_code.filter(|_| action == ContainerAction::Died);
            Some(Event::Container { id, name, action, exit_code, labels: attributes })
        }
        EventMessageTypeEnum::NETWORK => {
            let action = match action.as_str() {
                "create" => NetworkAction::Created,
                "connect" => NetworkAction::Attached,
                "disconnect" => NetworkAction::Detached,
                "destroy" | "remove" => NetworkAction::Removed,
                _ => NetworkAction::Other(action),
            };
            Some(Event::Network { id, name, action, container: attributes.remove("container") })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
