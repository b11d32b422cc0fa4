//! What a worker does: from whatever is there to a container, a host end and a plan for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use causeway_api::conditions::Reason;
use causeway_containers::{Event, Runtime, client_image};
use causeway_ir::tunnel::{Dial, TunnelPlan};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, timeout};

use super::container::{self, Owner, Wanted};
use super::{Context, Order, RETRY, Reporter};
use crate::containers::runtime::Availability;
use crate::containers::tunnel::desired::{Desired, plan::plan};
use crate::containers::tunnel::directory::{self, Directory};
use crate::containers::tunnel::host::{self, Follower, HostProgram, Seen, protocol::LinkState};
use crate::containers::tunnel::ledger::Ledger;
use crate::containers::tunnel::problem::Problem;
use crate::containers::tunnel::state::{CarriedTunnel, ClientState, HostState, Phase, RuntimeState, State};
use crate::containers::tunnel::validate::Network;
use crate::framework::report;

/// How long a host end that is adopted may take to say how it stands, before things go on without.
const ADOPTION_PATIENCE: Duration = Duration::from_secs(3);

/// A worker at work.
pub(super) struct Work {
    pub(super) owner: Owner,
    pub(super) directory: Directory,
    pub(super) ledger: Ledger,
    /// What of the ledger is on disk.
    kept: Ledger,
    program: HostProgram,
    pub(super) order_rx: watch::Receiver<Order>,
    pub(super) availability_rx: watch::Receiver<Availability>,
    pub(super) events_rx: broadcast::Receiver<Event>,
    pub(super) reporter: Reporter,
    /// The host end; kept over everything that happens to the container.
    pub(super) host: Option<Follower>,
    /// The network that the container is on.
    network: Option<Network>,
    /// What the host end was told to do.
    plan: Option<TunnelPlan>,
    /// The container is of an older image; another is made when no stream is open.
    pub(super) is_outdated: bool,
    /// Whether the link was up since the container was last started.
    pub(super) was_up: bool,
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
            is_outdated: false,
            was_up: false,
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
            let outcome = if is_ours { Ok(()) } else { self.take_over().await };
            is_ours |= outcome.is_ok();
            let outcome = match outcome {
                Ok(()) => self.serve(&desired).await,
                Err(problem) => Err(problem),
            };
            match outcome {
                Ok(()) => retries.reset(),
                Err(problem) => {
                    self.state().problem = Some(problem);
                    if !self.is_up() {
                        self.state().client = None;
                    }
                    self.look();
                    self.pause(retries.next_delay()).await;
                }
            }
        }
    }

    /// Makes the directory the object's own: what an object of the same name left in it goes, what an operator before
    /// this one left running is adopted.
    async fn take_over(&mut self) -> Result<(), Problem> {
        let owner = self.directory.owner().map_err(|error| unusable(&error))?;
        if owner.as_deref() != Some(self.owner.uid.as_str()) {
            self.end_host(Duration::ZERO).await?;
            self.directory.leave().map_err(|error| unusable(&error))?;
            self.directory.claim(&self.owner.uid).map_err(|error| unusable(&error))?;
            self.ledger.client = None;
        } else if let (Some((client, network)), Some(plan), Ok(Some(record))) = (
            self.ledger.client.clone(),
            self.directory.plan().map_err(|error| unusable(&error))?,
            host::Record::of_running(self.directory.path()),
        ) {
            let pid = record.process.pid;
            self.directory.journal.say(&format!("the host end runs already, as process {pid}: adopted"));
            let host = Follower::start(self.directory.path().to_owned(), self.program.clone());
            let mut seen_rx = host.seen();
            // An error means that it has nothing to say, which the state shows.
            let _ = timeout(ADOPTION_PATIENCE, seen_rx.wait_for(|seen| seen.status.is_some())).await;
            self.host = Some(host);
            self.plan = Some(plan);
            self.network = Some(network);
            self.state().client = Some(client);
            self.state().phase = Phase::Linked;
        }
        if self.state().phase == Phase::Looking {
            self.state().phase = Phase::Waiting;
        }
        self.look();
        Ok(())
    }

    /// Does what is desired as long as nothing changes that needs another look.
    async fn serve(&mut self, desired: &Desired) -> Result<(), Problem> {
        let is_up = self.is_up();
        // Once, so that no change is missed while something is waited for below.
        let runtime = self.runtime();
        let network = match (&desired.network, &self.network) {
            (Ok(network), _) => network.clone(),
            // Traffic passes, and nobody says that the network is gone.
            (Err(problem), Some(network)) if is_up && is_doubt(problem) => network.clone(),
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
        match runtime.filter(|_| !is_doubt(problem)) {
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

    /// Makes image and container be there; what is there already is left alone.
    async fn establish(
        &mut self,
        runtime: &Runtime,
        desired: &Desired,
        network: &Network,
    ) -> Result<(), Problem> {
        let image = match self.state().image.clone() {
            Some(image) => image,
            None => self.image(runtime, desired).await?,
        };
        if self.state().client.is_none() {
            self.enter(Phase::Starting);
        }
        let keeps_older_image = self.is_up();
        self.ledger.has_container = true;
        self.keep_if_changed()?;
        let directory = self.directory.path().to_owned();
        let wanted = Wanted {
            owner: &self.owner,
            image: &image,
            network,
            aliases: &desired.aliases,
            program: &self.program,
            directory: &directory,
            keeps_older_image,
        };
        let journal = &mut self.directory.journal;
        let mut say = |line: &str| journal.say(line);
        let ensured = container::ensure(runtime, &wanted, &mut self.ledger, &mut say).await;
        let ensured = match ensured {
            Ok(ensured) => ensured,
            Err(problem) => {
                // Whatever it was, the image may be gone too: it is looked for again.
                self.state().image = None;
                self.keep_if_changed()?;
                return Err(problem);
            }
        };
        self.is_outdated = ensured.is_outdated;
        self.ledger.client = Some((ensured.client.clone(), network.clone()));
        self.keep_if_changed()?;
        self.state().client = Some(ensured.client);
        self.state().problem = None;
        self.enter(Phase::Linked);
        Ok(())
    }

    async fn image(&mut self, runtime: &Runtime, desired: &Desired) -> Result<String, Problem> {
        if self.host.is_none() {
            self.enter(Phase::BuildingImage);
        }
        let options = client_image::Options { base_image: desired.base_image.clone(), ..Default::default() };
        let journal = &mut self.directory.journal;
        let image =
            client_image::ensure(runtime, &options, |line| journal.say(line)).await.map_err(|error| {
                let reason = Reason::ImageBuildFailed;
                Problem { reason, is_permanent: error.is_permanent(), message: error.report() }
            })?;
        self.state().image = Some(image.clone());
        Ok(image)
    }

    /// Gives the host end its plan; one that does not run yet is started.
    pub(super) fn carry(&mut self, desired: &Desired) -> Result<(), Problem> {
        let Some((client, _)) = &self.ledger.client else { return Ok(()) };
        let (dial, authority) = (dial(client), self.directory.authority());
        let plan = plan(desired, dial, authority, &mut self.ledger);
        self.ledger.trim(desired.tunnels.iter().map(|desired| desired.spec.name.as_str()));
        self.keep_if_changed()?;
        if self.plan.as_ref() != Some(&plan) {
            self.directory.write_plan(&plan).map_err(|error| unusable(&error))?;
            self.plan = Some(plan);
            if let Some(host) = &self.host {
                host.reload();
            }
        }
        self.host
            .get_or_insert_with(|| Follower::start(self.directory.path().to_owned(), self.program.clone()));
        Ok(())
    }

    /// Takes over what the host end says, and remembers the ports that tunnels got.
    pub(super) fn observe(&mut self, seen: &Seen) -> Result<(), Problem> {
        self.state().link = seen.link();
        self.state().host =
            seen.status.as_ref().map(|status| HostState { pid: status.pid, since: status.started_at });
        self.state().tunnels.clear();
        let Some(status) = &seen.status else { return Ok(()) };
        for tunnel in self.plan.iter().flat_map(|plan| &plan.tunnels) {
            let Some(told) = status.tunnels.get(&tunnel.id) else { continue };
            let carried =
                CarriedTunnel { id: tunnel.id, state: told.state.clone(), counters: told.counters.clone() };
            if let Some(port) = carried.port() {
                self.ledger.learn(&tunnel.name, port);
            }
            self.reporter.state.tunnels.insert(tunnel.name.to_string(), carried);
        }
        self.keep_if_changed()?;
        match &status.plan_error {
            Some(error) => {
                Err(Problem::not_ready(format!("the host end does not follow its newest plan: {error}")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn keep_if_changed(&mut self) -> Result<(), Problem> {
        if self.kept == self.ledger {
            return Ok(());
        }
        self.directory.keep(&self.ledger).map_err(|error| unusable(&error))?;
        self.kept.clone_from(&self.ledger);
        Ok(())
    }

    /// Ends the host end, wherever it came from; it is gone for certain when this returns well.
    pub(super) async fn end_host(&mut self, drain: Duration) -> Result<(), Problem> {
        self.host = None;
        host::end(self.directory.path(), drain)
            .await
            .map_err(|error| Problem::not_ready(format!("can't end the host end: {error}")))?;
        self.plan = None;
        self.network = None;
        let state = self.state();
        state.client = None;
        state.host = None;
        state.link = LinkState::default();
        state.tunnels.clear();
        Ok(())
    }

    /// Removes the container; it is gone for certain when this returns well.
    pub(super) async fn remove_container(&mut self, runtime: &Runtime) -> Result<(), Problem> {
        container::remove(runtime, &self.owner).await.map_err(|error| Problem::not_ready(error.report()))?;
        self.ledger.has_container = false;
        self.ledger.client = None;
        self.keep_if_changed()
    }

    pub(super) fn is_up(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.seen().borrow().link() == LinkState::Up)
    }

    /// Makes way for another container: ends the host end, if it agrees that no stream is open.
    pub(super) async fn make_way(&mut self) -> bool {
        let Some(host) = &self.host else { return true };
        let is_ended = host.end_if_idle().await;
        if is_ended {
            self.directory.journal.say("no stream is open: making a container of the newer image");
            self.host = None;
        }
        is_ended
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

    /// Tells what the host end says now.
    pub(super) fn look(&mut self) {
        let seen = self.host.as_ref().map(|host| host.seen().borrow().clone());
        if let Some(Err(problem)) = seen.map(|seen| self.observe(&seen)) {
            self.state().problem = Some(problem);
        }
        self.tell();
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
                () = said => self.look(),
            }
        }
    }
}

/// Where the host end finds the container.
fn dial(client: &ClientState) -> Dial {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Dial { control: loopback(client.control_port), data: loopback(client.data_port) }
}

/// Whether the network may be there all the same.
pub(super) fn is_doubt(problem: &Problem) -> bool {
    problem.reason == Reason::NetworkNotReady
}

pub(super) fn unusable(error: &directory::Error) -> Problem {
    Problem::permanent(Reason::NotReady, report::chain(error))
}
