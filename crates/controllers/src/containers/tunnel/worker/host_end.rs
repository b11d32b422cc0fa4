//! The host end in the hands of a worker: adopted, started with its plan, listened to and ended.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use causeway_ir::tunnel::{Dial, LinkState};
use tokio::time::timeout;

use super::work::{Work, unusable};
use crate::containers::tunnel::desired::{Desired, plan::plan};
use crate::containers::tunnel::host::{self, Follower, Seen};
use crate::containers::tunnel::problem::Problem;
use crate::containers::tunnel::state::{CarriedTunnel, ClientState, HostState, Phase};

/// How long a host end that is adopted may take to say how it stands, before things go on without.
const ADOPTION_PATIENCE: Duration = Duration::from_secs(3);

impl Work {
    /// Makes the directory the object's own: what an object of the same name left in it goes, what an operator before
    /// this one left running is adopted.
    pub(super) async fn take_over(&mut self) -> Result<(), Problem> {
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
        self.refresh();
        Ok(())
    }

    /// Gives the host end its plan; one that does not run yet is started.
    pub(super) fn carry(&mut self, desired: &Desired) -> Result<(), Problem> {
        let Some((client, _)) = &self.ledger.client else { return Ok(()) };
        let (dial, authority) = (dial(client), self.directory.authority());
        let plan = plan(desired, dial, authority, &mut self.ledger);
        self.ledger.trim(desired.tunnels.iter().map(|desired| desired.spec.name.as_str()));
        self.explain(desired);
        self.keep_if_changed()?;
        // One that is started finds the plan on disk, where it may have gone with the one before.
        if self.host.is_none() || self.plan.as_ref() != Some(&plan) {
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

    /// Writes down what is in a tunnel's way, when that is news.
    fn explain(&mut self, desired: &Desired) {
        let problems: BTreeMap<_, _> = desired
            .tunnels
            .iter()
            .filter_map(|tunnel| Some((tunnel.spec.name.clone(), tunnel.problem.as_ref()?.message.clone())))
            .collect();
        for (name, message) in &problems {
            if self.problems.get(name) != Some(message) {
                self.directory.journal.say(&format!("tunnel {name}: {message}"));
            }
        }
        self.problems = problems;
    }

    /// Takes over what the host end says, and remembers the ports that tunnels got.
    pub(super) fn take_status(&mut self, seen: &Seen) -> Result<(), Problem> {
        self.state().link = seen.link();
        self.state().host =
            seen.status.as_ref().map(|status| HostState { pid: status.pid, since: status.started_at });
        self.state().tunnels.clear();
        let Some(status) = &seen.status else { return self.keep_plan() };
        let mut figures = BTreeMap::new();
        for tunnel in self.plan.iter().flat_map(|plan| &plan.tunnels) {
            let Some(told) = status.tunnels.get(&tunnel.id) else { continue };
            let carried = CarriedTunnel { id: tunnel.id, state: told.state.clone() };
            figures.insert(tunnel.name.to_string(), told.counters.clone());
            if let Some(port) = carried.port() {
                self.ledger.learn(&tunnel.name, port);
            }
            self.reporter.state.tunnels.insert(tunnel.name.to_string(), carried);
        }
        self.figures.set(figures);
        self.keep_if_changed()?;
        match &status.plan_error {
            Some(error) => {
                Err(Problem::not_ready(format!("the host end does not follow its newest plan: {error}")))
            }
            None => Ok(()),
        }
    }

    /// Writes the plan again that somebody else has removed together with the host end; the next could not start.
    fn keep_plan(&self) -> Result<(), Problem> {
        match &self.plan {
            Some(plan) if !self.directory.has_plan() => {
                self.directory.write_plan(plan).map_err(|error| unusable(&error))
            }
            _ => Ok(()),
        }
    }

    /// Tells what the host end says now.
    pub(super) fn refresh(&mut self) {
        let seen = self.host.as_ref().map(|host| host.seen().borrow().clone());
        if let Some(Err(problem)) = seen.map(|seen| self.take_status(&seen)) {
            self.state().problem = Some(problem);
        }
        self.tell();
    }

    pub(super) fn is_up(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.seen().borrow().link() == LinkState::Up)
    }

    /// Makes way for another container: ends the host end, if it agrees that no stream is open.
    pub(super) async fn end_host_if_idle(&mut self) -> bool {
        let Some(host) = &self.host else { return true };
        let is_ended = host.end_if_idle().await;
        if is_ended {
            self.directory.journal.say("no stream is open: making a container of the newer image");
            self.host = None;
        }
        is_ended
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
        state.halted = None;
        state.host = None;
        state.link = LinkState::default();
        state.tunnels.clear();
        Ok(())
    }
}

/// Where the host end finds the container.
fn dial(client: &ClientState) -> Dial {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Dial { control: loopback(client.control_port), data: loopback(client.data_port) }
}
