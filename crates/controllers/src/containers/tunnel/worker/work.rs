//! What a worker does: follows its orders, and goes from whatever is there to a container, a host end and a plan for it.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_api::conditions::Reason;
use causeway_containers::{Event, Runtime};
use causeway_ir::tunnel::TunnelPlan;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::container::Owner;
use super::{Context, Order, RETRY, Reporter};
use crate::containers::runtime::Availability;
use crate::containers::tunnel::desired::Desired;
use crate::containers::tunnel::directory::{self, Directory};
use crate::containers::tunnel::figures::ProxyFigures;
use crate::containers::tunnel::host::{Follower, HostProgram};
use crate::containers::tunnel::ledger::Ledger;
use crate::containers::tunnel::problem::Problem;
use crate::containers::tunnel::state::{Phase, RuntimeState, State};
use crate::containers::tunnel::validate::Network;
use crate::framework::report;

/// A worker at work.
pub(super) struct Work {
    pub(super) owner: Owner,
    pub(super) directory: Directory,
    pub(super) ledger: Ledger,
    /// What of the ledger is on disk.
    kept: Ledger,
    pub(super) program: HostProgram,
    pub(super) figures: ProxyFigures,
    pub(super) order_rx: watch::Receiver<Order>,
    pub(super) availability_rx: watch::Receiver<Availability>,
    pub(super) events_rx: broadcast::Receiver<Event>,
    pub(super) reporter: Reporter,
    /// The host end; kept over everything that happens to the container.
    pub(super) host: Option<Follower>,
    /// The network that the container is on.
    pub(super) network: Option<Network>,
    /// What the host end was told to do.
    pub(super) plan: Option<TunnelPlan>,
    /// What was last said to be in the way of each tunnel.
    pub(super) problems: BTreeMap<String, String>,
    /// The container is of an older image; another is made when no stream is open.
    pub(super) is_outdated: bool,
    /// Whether the link was up since the container was last started.
    pub(super) was_up: bool,
    /// Containers in a row that were given up since no link to them came up.
    pub(super) given_up: u32,
}

impl Work {
    pub(super) fn new(
        context: Context,
        owner: Owner,
        directory: Directory,
        ledger: Ledger,
        order_rx: watch::Receiver<Order>,
        reporter: Reporter,
    ) -> Self {
        let availability_rx = context.runtime.availability();
        let events_rx = context.runtime.events();
        Self {
            figures: context.figures.of_proxy(&owner.namespace, &owner.name),
            owner,
            directory,
            kept: ledger.clone(),
            ledger,
            program: context.program,
            order_rx,
            availability_rx,
            events_rx,
            reporter,
            host: None,
            network: None,
            plan: None,
            problems: BTreeMap::new(),
            is_outdated: false,
            was_up: false,
            given_up: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let mut retries = RETRY.retries();
        let mut is_ours = false;
        loop {
            let order = self.order_rx.borrow_and_update().clone();
            let desired = match order {
                Order::Serve(desired) => desired,
                Order::End { drain } => return self.finish(drain).await,
            };
            let result = if is_ours { Ok(()) } else { self.take_over().await };
            is_ours |= result.is_ok();
            let result = match result {
                Ok(()) => self.serve(&desired).await,
                Err(problem) => Err(problem),
            };
            match result {
                Ok(()) => retries.reset(),
                Err(problem) => {
                    self.state().problem = Some(problem);
                    if self.state().phase == Phase::Looking {
                        // It is known by now that nothing was found, and why.
                        self.state().phase = Phase::Waiting;
                    }
                    if !self.is_up() {
                        self.state().client = None;
                    }
                    self.refresh();
                    self.pause(retries.next_delay()).await;
                }
            }
        }
    }

    /// Does what is desired as long as nothing changes that needs another look.
    async fn serve(&mut self, desired: &Desired) -> Result<(), Problem> {
        let is_up = self.is_up();
        // Once, so that no change is missed while something is waited for below.
        let runtime = self.runtime();
        let network = match (&desired.network, &self.network) {
            (Ok(network), _) => network.clone(),
            // Traffic passes, and nobody says that the network is gone.
            (Err(problem), Some(network)) if is_up && leaves_network_open(problem) => network.clone(),
            (Err(problem), _) => {
                self.leave_network(problem, runtime.as_ref()).await?;
                self.wait(Phase::Waiting).await;
                return Ok(());
            }
        };
        match runtime {
            Some(runtime) => {
                // An end does not wait for a build.
                let mut order_rx = self.order_rx.clone();
                let established = tokio::select! {
                    established = self.establish(&runtime, desired, &network) => established,
                    _ = order_rx.wait_for(|order| matches!(order, Order::End { .. })) => return Ok(()),
                };
                established?;
            }
            // The container may be well all the same, and the link comes back by itself.
            None if self.host.is_some() => {}
            None => {
                self.wait(Phase::Waiting).await;
                return Ok(());
            }
        }
        self.network = Some(network);
        self.carry(desired)?;
        self.tend(desired).await
    }

    /// Lets go of a network; one that is gone for certain would be held by the container.
    async fn leave_network(&mut self, problem: &Problem, runtime: Option<&Runtime>) -> Result<(), Problem> {
        self.directory.journal.say(&format!("waiting: {}", problem.message));
        self.end_host(Duration::ZERO).await?;
        match runtime.filter(|_| !leaves_network_open(problem)) {
            Some(runtime) => self.remove_container(runtime).await,
            None => Ok(()),
        }
    }

    /// The runtime, if one answers; the state follows.
    pub(super) fn runtime(&mut self) -> Option<Runtime> {
        let availability = self.availability_rx.borrow_and_update().clone();
        self.state().runtime = match &availability {
            Availability::Searching => RuntimeState::Unknown,
            Availability::Unavailable { why } => RuntimeState::Unavailable(why.clone()),
            Availability::Found(runtime) => RuntimeState::Available(format!("{runtime:?}")),
        };
        availability.runtime().cloned()
    }

    /// Whether the directory is not another object's, of the same name, that came after this one.
    pub(super) fn has_directory(&self) -> Result<bool, Problem> {
        let owner = self.directory.owner().map_err(|error| unusable(&error))?;
        Ok(owner.is_none_or(|owner| owner == self.owner.uid))
    }

    pub(super) fn keep_if_changed(&mut self) -> Result<(), Problem> {
        if self.kept == self.ledger || !self.has_directory()? {
            return Ok(());
        }
        self.directory.keep(&self.ledger).map_err(|error| unusable(&error))?;
        self.kept.clone_from(&self.ledger);
        Ok(())
    }

    pub(super) fn state(&mut self) -> &mut State {
        &mut self.reporter.state
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.state().phase = phase;
        self.tell();
    }

    pub(super) fn tell(&mut self) {
        for line in self.reporter.tell() {
            self.directory.journal.say(&line);
        }
    }

    /// Waits for another order or another runtime.
    async fn wait(&mut self, phase: Phase) {
        self.state().problem = None;
        self.enter(phase);
        tokio::select! {
            _ = self.order_rx.changed() => {}
            _ = self.availability_rx.changed() => {}
        }
    }

    /// Waits before the next try, unless something changes that may help. What the host end says is told meanwhile.
    pub(super) async fn pause(&mut self, delay: Duration) {
        let until = Instant::now() + delay;
        let mut seen_rx = self.host.as_ref().map(Follower::seen);
        loop {
            let said = async {
                match &mut seen_rx {
                    Some(seen_rx) => drop(seen_rx.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                _ = self.order_rx.changed() => return,
                _ = self.availability_rx.changed() => return,
                () = said => self.refresh(),
            }
        }
    }
}

/// Whether the network may be there all the same.
pub(super) fn leaves_network_open(problem: &Problem) -> bool {
    problem.reason == Reason::NetworkNotReady
}

pub(super) fn unusable(error: &directory::Error) -> Problem {
    Problem::permanent(Reason::NotReady, report::chain(error))
}
