//! What happens in the runtime, as the objects that have to look at it. The start-up sweep hangs here too: it is due
//! whenever a runtime begins to answer.

use std::{sync::Arc, time::Duration};

use causeway_api::ContainerNetwork;
use causeway_containers::{ContainerAction, Event, NetworkAction};
use futures::{Stream, StreamExt, stream};
use kube::runtime::reflector::ObjectRef;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        watch,
    },
    task::JoinSet,
    time::{Interval, MissedTickBehavior},
};

use super::tracked::TrackedObjects;
use crate::containers::{
    leftovers::Sweeper,
    runtime::{Availability, ContainerRuntime},
};

/// Between two looks at every network: Podman before version 5 does not tell of networks made and removed.
const LOOK: Duration = Duration::from_secs(15);

/// Waits for things to happen.
pub(crate) struct Wakes {
    tracked: Arc<TrackedObjects>,
    sweeper: Arc<Sweeper<ContainerNetwork>>,
    availability_rx: watch::Receiver<Availability>,
    events_rx: broadcast::Receiver<Event>,
    look: Interval,
    sweeps: JoinSet<bool>,
    sweep_is_due: bool,
}

impl Wakes {
    /// Starts to listen; inside of tokio.
    pub(crate) fn new(
        runtime: &ContainerRuntime,
        tracked: Arc<TrackedObjects>,
        sweeper: Sweeper<ContainerNetwork>,
    ) -> Self {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let events_rx = runtime.events();
        let mut availability_rx = runtime.availability();
        availability_rx.mark_changed();
        Self {
            tracked,
            sweeper: Arc::new(sweeper),
            availability_rx,
            events_rx,
            look,
            sweeps: JoinSet::new(),
            sweep_is_due: false,
        }
    }

    /// The objects to look at, as things happen.
    pub(crate) fn into_stream(self) -> impl Stream<Item = ObjectRef<ContainerNetwork>> + Send {
        stream::unfold(self, |mut wakes| async move {
            let woken = wakes.next().await?;
            Some((stream::iter(woken), wakes))
        })
        .flatten()
    }

    async fn next(&mut self) -> Option<Vec<ObjectRef<ContainerNetwork>>> {
        tokio::select! {
            changed = self.availability_rx.changed() => {
                changed.ok()?;
                self.sweep_is_due = true;
                self.sweep();
                Some(self.tracked.all())
            }
            event = self.events_rx.recv() => match event {
                Ok(event) => Some(self.concerned(&event)),
                Err(RecvError::Lagged(_)) => Some(self.tracked.all()),
                Err(RecvError::Closed) => None,
            },
            _ = self.look.tick() => {
                self.sweep();
                Some(self.tracked.all())
            }
            Some(ended) = self.sweeps.join_next() => {
                let again = ended.unwrap_or(true);
                // The runtime went and came back meanwhile; what only has to be tried again waits for its time.
                self.sweep();
                self.sweep_is_due |= again;
                Some(Vec::new())
            }
        }
    }

    fn concerned(&mut self, event: &Event) -> Vec<ObjectRef<ContainerNetwork>> {
        match event {
            Event::Network { name, action: NetworkAction::Created | NetworkAction::Removed, .. } => {
                self.tracked.of(name)
            }
            // Podman names the container and not always the network, and tells nothing of networks that a container
            // joins as it starts and leaves as it ends.
            Event::Network { .. }
            | Event::Container {
                action: ContainerAction::Started | ContainerAction::Died | ContainerAction::Removed,
                ..
            } => {
                self.sweep();
                self.tracked.all()
            }
            // The availability says it too.
            Event::Container { .. } | Event::Lost { .. } | Event::Back => Vec::new(),
        }
    }

    /// Sweeps beside everything else, if that is due and no sweep is under way.
    fn sweep(&mut self) {
        let runtime = self.availability_rx.borrow().runtime().cloned();
        let Some(runtime) = runtime.filter(|_| self.sweep_is_due && self.sweeps.is_empty()) else { return };
        self.sweep_is_due = false;
        let sweeper = self.sweeper.clone();
        self.sweeps.spawn(async move { sweeper.sweep(&runtime).await });
    }
}
