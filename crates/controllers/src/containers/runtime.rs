//! The container runtime that controllers share: looked for when the first of them asks, waited for when it goes away,
//! with one subscription to its events for all.

use std::{
    fmt,
    sync::{Arc, Once},
    time::Duration,
};

use causeway_containers::{Choice, Event, Runtime};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use causeway_base::Backoff;

/// Between two searches.
const SEARCH: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));
/// Events that wait for a slow listener; one that falls behind is told so and looks at everything again.
const QUEUE: usize = 1024;
/// What is said where runtimes are not to be used.
pub(crate) const OFF: &str = "container runtimes are switched off by --container-runtime none; start with auto, docker or podman to use one";

/// Whether there is a runtime to work with.
#[derive(Clone, Debug)]
pub(crate) enum Availability {
    /// Nobody knows yet.
    Searching,
    /// None answers.
    Unavailable {
        /// Where it was looked for, and what to do.
        why: String,
    },
    /// This one answers.
    Found(Runtime),
}

impl Availability {
    /// The runtime, if one answers.
    pub(crate) fn runtime(&self) -> Option<&Runtime> {
        match self {
            Self::Found(runtime) => Some(runtime),
            Self::Searching | Self::Unavailable { .. } => None,
        }
    }
}

/// What it says to people.
impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Searching => f.write_str("looking for a container runtime"),
            Self::Unavailable { why } => f.write_str(why),
            Self::Found(runtime) => write!(f, "{runtime:?} answers"),
        }
    }
}

/// The shared runtime; clones are the same one. Its task ends with the last of them.
#[derive(Clone)]
pub(crate) struct ContainerRuntime {
    shared: Arc<Shared>,
}

struct Shared {
    choice: Option<Choice>,
    instance: String,
    search: Once,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    // follower → controllers
    availability_tx: watch::Sender<Availability>,
    // follower → controllers
    events_tx: broadcast::Sender<Event>,
}

impl ContainerRuntime {
    /// The runtime of this choice, not yet looked for; without a choice there is never one.
    pub(crate) fn new(choice: Option<Choice>, instance: String) -> Self {
        let first = match choice {
            Some(_) => Availability::Searching,
            None => Availability::Unavailable { why: OFF.to_owned() },
        };
        let stop = CancellationToken::new();
        let shared = Shared {
            choice,
            instance,
            search: Once::new(),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            availability_tx: watch::Sender::new(first),
            events_tx: broadcast::Sender::new(QUEUE),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The id of the data directory, as the labels of what is made carry it.
    pub(crate) fn instance(&self) -> &str {
        &self.shared.instance
    }

    /// Follows whether a runtime answers. The first call starts the search, inside of tokio.
    pub(crate) fn availability(&self) -> watch::Receiver<Availability> {
        let shared = &self.shared;
        if let Some(choice) = shared.choice.clone() {
            shared.search.call_once(|| {
                let follower = Follower {
                    choice,
                    availability_tx: shared.availability_tx.clone(),
                    events_tx: shared.events_tx.clone(),
                };
                tokio::spawn(shared.stop.clone().run_until_cancelled_owned(follower.run()));
            });
        }
        shared.availability_tx.subscribe()
    }

    /// What happens in the runtime from now on. There are no events before somebody asked for `availability`.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.events_tx.subscribe()
    }
}

struct Follower {
    choice: Choice,
    availability_tx: watch::Sender<Availability>,
    events_tx: broadcast::Sender<Event>,
}

impl Follower {
    /// A runtime that was found is kept to, also while it is away: what was made is in that one.
    async fn run(self) {
        let runtime = self.search().await;
        // Before it is announced, so that no event is lost on those who act upon it.
        let mut events = runtime.events();
        self.availability_tx.send_replace(Availability::Found(runtime.clone()));
        while let Some(event) = events.recv().await {
            match &event {
                Event::Lost { why } => {
                    tracing::warn!(runtime = ?runtime, why, "the container runtime can't be reached");
                    let why = format!("{runtime:?} can't be reached and is waited for: {why}");
                    self.availability_tx.send_replace(Availability::Unavailable { why });
                }
                Event::Back => {
                    tracing::info!(runtime = ?runtime, "the container runtime is back");
                    self.availability_tx.send_replace(Availability::Found(runtime.clone()));
                }
                Event::Container { .. } | Event::Network { .. } => {}
            }
            let lost = matches!(event, Event::Lost { .. });
            // Nobody may be listening.
            let _ = self.events_tx.send(event);
            if lost {
                self.explain(&runtime).await;
            }
        }
    }

    async fn search(&self) -> Runtime {
        let mut retries = SEARCH.retries();
        loop {
            match Runtime::connect(&self.choice).await {
                Ok(runtime) => {
                    tracing::info!(runtime = ?runtime, "found a container runtime");
                    return runtime;
                }
                Err(unreachable) => self.unavailable(unreachable.to_string()),
            }
            tokio::time::sleep(retries.next_delay()).await;
        }
    }

    /// Says more about a runtime that can't be reached: its socket, and how to start it.
    async fn explain(&self, runtime: &Runtime) {
        let same = Choice::Socket(runtime.socket().to_owned());
        if let Err(unreachable) = Runtime::connect(&same).await {
            self.unavailable(format!("{} can't be reached and is waited for: {unreachable}", runtime.kind()));
        }
    }

    fn unavailable(&self, why: String) {
        self.availability_tx.send_if_modified(|now| {
            let is_news = !matches!(now, Availability::Unavailable { why: known } if *known == why);
            if is_news {
                tracing::info!(why, "no container runtime");
                *now = Availability::Unavailable { why };
            }
            is_news
        });
    }
}

#[cfg(test)]
mod tests;
