//! While everything is in place: follows the host end, the container and the orders until one of them needs more.

use std::time::Duration;

use causeway_containers::{ContainerAction, Event, LogOptions, Runtime};
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::sync::broadcast;
use tokio::time::timeout;

use super::Order;
use super::outage::Outage;
use super::work::{Work, leaves_network_open};
use crate::containers::tunnel::desired::Desired;
use crate::containers::tunnel::host::Follower;
use crate::containers::tunnel::problem::Problem;

/// A link that is down for longer although its container runs needs another container. If that did not help, the next one
/// is waited for twice as long, and so on.
const LINK_PATIENCE: Duration = Duration::from_secs(30);
const MOST_DOUBLINGS: u32 = 4;
/// The last lines of a container that ended.
const LAST_LINES: u64 = 5;

impl Work {
    /// Returns when something needs another look.
    pub(super) async fn tend(&mut self, desired: &Desired) -> Result<(), Problem> {
        let Some(mut seen_rx) = self.host.as_ref().map(Follower::seen) else { return Ok(()) };
        let mut desired = desired.clone();
        let mut outage = Outage::default();
        loop {
            let seen = seen_rx.borrow_and_update().clone();
            self.take_status(&seen)?;
            self.tell();
            // The container is not to blame while no host end dials it.
            outage.see(self.is_up() || seen.status.is_none());
            self.was_up |= self.is_up();
            if self.is_up() {
                self.given_up = 0;
            }
            let patience = LINK_PATIENCE * (1 << self.given_up.min(MOST_DOUBLINGS));
            if desired.network.as_ref().is_err_and(|problem| !self.is_up() || !leaves_network_open(problem)) {
                return Ok(());
            }
            let is_idle = seen.status.as_ref().is_some_and(|status| status.streams == 0);
            if self.is_outdated && is_idle && self.runtime().is_some() && self.end_host_if_idle().await {
                return Ok(());
            }
            tokio::select! {
                // An error means that nobody follows the host end any more, which its owner would know.
                _ = seen_rx.changed() => {}
                _ = self.order_rx.changed() => {
                    let order = self.order_rx.borrow_and_update().clone();
                    match order {
                        Order::Serve(next) if is_same_container(&desired, &next) => {
                            self.carry(&next)?;
                            desired = *next;
                        }
                        _ => return Ok(()),
                    }
                }
                event = self.events_rx.recv() => {
                    if let Some(result) = self.handle_event(event).await {
                        return result;
                    }
                }
                _ = self.availability_rx.changed() => {
                    if self.runtime().is_some() {
                        return Ok(());
                    }
                }
                () = outage.lasts(patience) => {
                    let is_halted = self.state().halted.is_some();
                    if let Some(runtime) = self.runtime().filter(|_| !is_halted) {
                        self.give_up_container(&runtime, patience).await;
                        return Ok(());
                    }
                    outage.restart();
                }
            }
        }
    }

    /// What an event means: nothing, another look, or problem.
    async fn handle_event(
        &mut self,
        event: Result<Event, broadcast::error::RecvError>,
    ) -> Option<Result<(), Problem>> {
        // Events were missed: look at everything.
        let Ok(event) = event else { return Some(Ok(())) };
        let Event::Container { id, name, action, exit_code, .. } = event else { return None };
        // The name alone is also that of the container before this one, whose end may be heard of late.
        let is_own = match &self.reporter.state.client {
            Some(client) => client.id == id,
            None => name == self.owner.container_name(),
        };
        if !is_own {
            return None;
        }
        match action {
            ContainerAction::Died | ContainerAction::OutOfMemory => {
                let code = exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
                let words = self.last_lines(&id).await;
                let why = format!("container {name} ended{code}{words}");
                self.directory.journal.say(&why);
                // One that never got so far is broken: trying again at once would only heat the machine.
                Some(if std::mem::take(&mut self.was_up) { Ok(()) } else { Err(Problem::not_ready(why)) })
            }
            ContainerAction::Removed => {
                self.directory.journal.say(&format!("container {name} was removed"));
                Some(Ok(()))
            }
            ContainerAction::Renamed | ContainerAction::Paused | ContainerAction::Resumed => Some(Ok(())),
            ContainerAction::Created
            | ContainerAction::Started
            | ContainerAction::Stopped
            | ContainerAction::Killed
            | ContainerAction::Other(_) => None,
        }
    }

    /// What a container said last, for people who could not look before it went.
    async fn last_lines(&mut self, id: &str) -> String {
        let Some(runtime) = self.runtime() else { return String::new() };
        let options = LogOptions { tail: Some(LAST_LINES), ..LogOptions::default() };
        let lines = runtime.logs(id, options).take(LAST_LINES as usize).try_collect::<Vec<_>>();
        let lines = timeout(Duration::from_secs(2), lines).await;
        let Ok(Ok(lines)) = lines else { return String::new() };
        let said: Vec<_> =
            lines.iter().map(|line| String::from_utf8_lossy(&line.text).trim_end().to_owned()).collect();
        if said.is_empty() { String::new() } else { format!("; it said last: {}", said.join(" | ")) }
    }

    async fn give_up_container(&mut self, runtime: &Runtime, patience: Duration) {
        let seconds = patience.as_secs();
        self.given_up += 1;
        self.directory.journal.say(&format!("the link is down for {seconds} s: making another container"));
        if let Err(problem) = self.remove_container(runtime).await {
            self.directory.journal.say(&problem.message);
        }
    }
}

/// Whether the same container serves both; tunnels come and go within one.
fn is_same_container(one: &Desired, other: &Desired) -> bool {
    one.aliases == other.aliases
        && one.base_image == other.base_image
        && (one.network == other.network || other.network.is_err())
}
