//! The actor of one tunnel proxy: it sees to the image, the container and the link until told to end, whatever breaks in
//! between. It is told what to do by a watched order and tells how things stand by a watched state, so that neither side
//! ever waits for the other. The link is left alone as long as it works: a runtime that is away harms nobody.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::conditions::Reason;
use causeway_api::{ContainerNetworkTunnelProxyStatus, Tunnel};
use causeway_containers::{ContainerAction, Event, LogOptions, Runtime, client_image};
use causeway_link::host::{self, Host, LinkState};
use causeway_link::{Authority, TunnelId};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};

use super::client::{self, Owner, Wanted};
use super::home::{self, Home};
use super::ledger::Ledger;
use super::state::{CarriedTunnel, Phase, RuntimeState, State, Trouble};
use super::story;
use super::translate::link_tunnel;
use super::wish::{Lack, Network, Wish};
use crate::containers::runtime::{Availability, ContainerRuntime};
use crate::framework::backoff::{self, Backoff};
use crate::framework::report;

/// Between two tries to get further.
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), most: Duration::from_secs(30) };
/// How often the figures of tunnels are looked at.
const FIGURES: Duration = Duration::from_secs(5);
/// A link that is down for longer although its container runs needs another container.
const LINK_PATIENCE: Duration = Duration::from_secs(30);
/// How long the search for a runtime may hold up an end.
const SEARCH_PATIENCE: Duration = Duration::from_secs(3);
/// How long the runtime may take to remove the container at the end.
const REMOVE_PATIENCE: Duration = Duration::from_secs(20);
/// The last lines of a container that ended.
const LAST_LINES: u64 = 5;

/// What an actor is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Do this.
    Serve(Box<Wish>),
    /// Stop, and remove what was made.
    End {
        /// How long streams may go on.
        drain: Duration,
        /// The object is gone for good, and its keys with it.
        forget: bool,
    },
}

/// What actors share.
#[derive(Clone)]
pub struct Surroundings {
    /// The container runtime.
    pub runtime: ContainerRuntime,
    /// Where homes are.
    pub directory: PathBuf,
}

/// The handle of an actor; it ends when this is dropped, without clearing up.
pub struct Actor {
    order_tx: watch::Sender<Order>,
    state_rx: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Actor {
    /// Starts an actor. `wake` is called whenever the state has changed; `memory` is asked where the disk has none.
    pub fn start(
        surroundings: Surroundings,
        owner: Owner,
        order: Order,
        memory: (ContainerNetworkTunnelProxyStatus, Vec<Tunnel>),
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (order_tx, order_rx) = watch::channel(order); // reconciler → actor
        let (state_tx, state_rx) = watch::channel(State::default()); // actor → reconciler
        let voice = Voice { state: State::default(), state_tx, wake };
        let task = tokio::spawn(live(surroundings, owner, memory, order_rx, voice));
        Self { order_tx, state_rx, task }
    }

    /// Gives another order; an equal one is nothing new.
    pub fn order(&self, order: Order) {
        self.order_tx.send_if_modified(|known| {
            let differs = *known != order;
            *known = order;
            differs
        });
    }

    /// How things stand.
    pub fn state(&self) -> State {
        self.state_rx.borrow().clone()
    }

    /// Ends it in order, and waits for that.
    pub async fn end(mut self, drain: Duration, forget: bool) {
        self.order(Order::End { drain, forget });
        // An error means that it has ended already.
        let _ = self.state_rx.wait_for(|state| state.phase == Phase::Gone).await;
    }
}

/// Tells how things stand.
struct Voice {
    state: State,
    state_tx: watch::Sender<State>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Voice {
    /// Tells the state, if it is another one than before, and gives what there is to say of that to people.
    fn tell(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_news = self.state_tx.send_if_modified(|known| {
            let differs = *known != self.state;
            if differs {
                said = story::of(known, &self.state);
                known.clone_from(&self.state);
            }
            differs
        });
        if is_news {
            (self.wake)();
        }
        said
    }
}

async fn live(
    surroundings: Surroundings,
    owner: Owner,
    memory: (ContainerNetworkTunnelProxyStatus, Vec<Tunnel>),
    mut order_rx: watch::Receiver<Order>,
    mut voice: Voice,
) {
    let availability_rx = surroundings.runtime.availability();
    let events_rx = surroundings.runtime.events();
    let mut failures = 0;
    let (home, ledger, authority) = loop {
        match move_in(&surroundings, &owner, &memory) {
            Ok(found) => break found,
            Err(error) => {
                let why = report::chain(&error);
                voice.state.trouble = Some(Trouble { reason: Reason::NotReady, why, is_permanent: true });
                voice.tell();
                failures += 1;
                let pause = sleep(RETRY.delay(failures, backoff::random()));
                tokio::select! {
                    () = pause => {}
                    _ = order_rx.wait_for(|order| matches!(order, Order::End { .. })) => {
                        // Without a place on disk nothing was ever made.
                        voice.state.phase = Phase::Gone;
                        voice.tell();
                        return;
                    }
                }
            }
        }
    };
    let worker = Worker {
        owner,
        home,
        kept: ledger.clone(),
        ledger,
        authority,
        order_rx,
        availability_rx,
        events_rx,
        voice,
        host: None,
        network: None,
        carried: Vec::new(),
        was_up: false,
    };
    worker.run().await;
}

fn move_in(
    surroundings: &Surroundings,
    owner: &Owner,
    (status, tunnels): &(ContainerNetworkTunnelProxyStatus, Vec<Tunnel>),
) -> Result<(Home, Ledger, Authority), home::Error> {
    let home = Home::open(&surroundings.directory, &owner.namespace, &owner.name)?;
    let ledger = home.ledger()?.unwrap_or_else(|| Ledger::from_status(status, tunnels));
    let authority = home.authority(&owner.uid)?;
    Ok((home, ledger, authority))
}

struct Worker {
    owner: Owner,
    home: Home,
    ledger: Ledger,
    /// What of the ledger is on disk.
    kept: Ledger,
    authority: Authority,
    order_rx: watch::Receiver<Order>,
    availability_rx: watch::Receiver<Availability>,
    events_rx: broadcast::Receiver<Event>,
    voice: Voice,
    /// The host's end; kept over everything that happens to the container.
    host: Option<Host>,
    /// The network that the container is on.
    network: Option<Network>,
    /// What the link was asked to carry.
    carried: Vec<(TunnelId, String)>,
    /// Whether the link was up since the container was last started.
    was_up: bool,
}

impl Worker {
    async fn run(mut self) {
        let mut failures = 0;
        loop {
            let order = self.order_rx.borrow_and_update().clone();
            let wish = match order {
                Order::Serve(wish) => wish,
                Order::End { drain, forget } => return self.clear_up(drain, forget).await,
            };
            match self.serve(&wish).await {
                Ok(()) => failures = 0,
                Err(trouble) => {
                    failures += 1;
                    self.voice.state.trouble = Some(trouble);
                    if !self.is_up() {
                        self.voice.state.client = None;
                    }
                    self.look();
                    self.pause(RETRY.delay(failures, backoff::random())).await;
                }
            }
        }
    }

    /// Does what is asked for as long as nothing changes that needs another look.
    async fn serve(&mut self, wish: &Wish) -> Result<(), Trouble> {
        let is_up = self.is_up();
        // Once, so that no change is missed while something is waited for below.
        let runtime = self.runtime();
        let network = match (&wish.network, &self.network) {
            (Ok(network), _) => network.clone(),
            // Traffic passes, and nobody says that the network is gone.
            (Err(lack), Some(network)) if is_up && is_doubt(lack) => network.clone(),
            (Err(lack), _) => {
                self.leave_network(lack, runtime.as_ref()).await?;
                self.wait(Phase::Waiting).await;
                return Ok(());
            }
        };
        match runtime {
            Some(runtime) => {
                // An end does not wait for a build.
                let mut order_rx = self.order_rx.clone();
                let established = tokio::select! {
                    established = self.establish(&runtime, wish, &network) => established,
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
        self.carry(wish)?;
        self.tend(wish).await
    }

    /// Lets go of a network; one that is gone for certain would be held by the container.
    async fn leave_network(&mut self, lack: &Lack, runtime: Option<&Runtime>) -> Result<(), Trouble> {
        self.home.journal.say(&format!("waiting: {}", lack.message));
        self.unlink();
        match runtime.filter(|_| !is_doubt(lack)) {
            Some(runtime) => {
                client::remove(runtime, &self.owner).await.map_err(|error| Trouble::transient(error.report()))
            }
            None => Ok(()),
        }
    }

    /// The runtime, if one answers; the state follows.
    fn runtime(&mut self) -> Option<Runtime> {
        let availability = self.availability_rx.borrow_and_update().clone();
        self.voice.state.runtime = match &availability {
            Availability::Searching => RuntimeState::Unknown,
            Availability::Unavailable { why } => RuntimeState::Unavailable(why.clone()),
            Availability::Found(runtime) => RuntimeState::Available(format!("{runtime:?}")),
        };
        availability.runtime().cloned()
    }

    /// Makes image, container and host's end be there; what is there already is left alone.
    async fn establish(&mut self, runtime: &Runtime, wish: &Wish, network: &Network) -> Result<(), Trouble> {
        let image = match self.voice.state.image.clone() {
            Some(image) => image,
            None => self.image(runtime, wish).await?,
        };
        let before = self.voice.state.client.clone();
        if before.is_none() {
            self.enter(Phase::Starting);
        }
        let wanted = Wanted {
            owner: &self.owner,
            image: &image,
            network,
            aliases: &wish.aliases,
            authority: &self.authority,
        };
        let journal = &mut self.home.journal;
        let client =
            client::ensure(runtime, &wanted, &mut self.ledger, &mut |line: &str| journal.say(line)).await;
        self.keep_if_changed()?;
        let client = client.inspect_err(|_| {
            // Whatever it was, the image may be gone too: it is looked for again.
            self.voice.state.image = None;
        })?;
        let loopback = |port| std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
        let (control, data) = (loopback(client.control_port), loopback(client.data_port));
        if let Some(host) = &self.host {
            host.redial(control, data);
        } else {
            self.host = Some(Host::start(host::Options::new(control, data, self.authority.clone())));
            self.voice.state.host_since = Some(Timestamp::now());
        }
        self.voice.state.client = Some(client);
        self.voice.state.trouble = None;
        self.enter(Phase::Linked);
        Ok(())
    }

    async fn image(&mut self, runtime: &Runtime, wish: &Wish) -> Result<String, Trouble> {
        if self.host.is_none() {
            self.enter(Phase::BuildingImage);
        }
        let options = client_image::Options { base_image: wish.base_image.clone(), ..Default::default() };
        let journal = &mut self.home.journal;
        let image =
            client_image::ensure(runtime, &options, |line| journal.say(line)).await.map_err(|error| {
                let reason = Reason::ImageBuildFailed;
                Trouble { reason, is_permanent: error.is_permanent(), why: error.report() }
            })?;
        self.voice.state.image = Some(image.clone());
        Ok(image)
    }

    /// Tells the link what to carry.
    fn carry(&mut self, wish: &Wish) -> Result<(), Trouble> {
        let Some(host) = &self.host else { return Ok(()) };
        let tunnels: Vec<_> =
            wish.tunnels.iter().filter_map(|wanted| link_tunnel(wanted, &mut self.ledger)).collect();
        self.ledger.trim(wish.tunnels.iter().map(|wanted| wanted.spec.name.as_str()));
        self.carried = tunnels.iter().map(|tunnel| (tunnel.id, tunnel.name.clone())).collect();
        host.carry(tunnels);
        self.keep_if_changed()
    }

    /// Follows the link, the container and the orders until one of them needs more than that.
    async fn tend(&mut self, wish: &Wish) -> Result<(), Trouble> {
        let Some(mut status_rx) = self.host.as_ref().map(Host::status) else { return Ok(()) };
        let mut wish = wish.clone();
        let mut figures = interval(FIGURES);
        let mut down_since = Instant::now();
        loop {
            let status = status_rx.borrow_and_update().clone();
            self.observe(status)?;
            self.tell();
            if self.is_up() {
                down_since = Instant::now();
                self.was_up = true;
            }
            if wish.network.as_ref().is_err_and(|lack| !self.is_up() || !is_doubt(lack)) {
                return Ok(());
            }
            tokio::select! {
                // An error means that the host's end is gone, which it never is before its owner.
                _ = status_rx.changed() => {}
                _ = self.order_rx.changed() => {
                    let order = self.order_rx.borrow_and_update().clone();
                    match order {
                        Order::Serve(next) if is_same_container(&wish, &next) => {
                            self.carry(&next)?;
                            wish = *next;
                        }
                        _ => return Ok(()),
                    }
                }
                event = self.events_rx.recv() => {
                    if let Some(outcome) = self.heed(event).await {
                        return outcome;
                    }
                }
                _ = self.availability_rx.changed() => {
                    if self.runtime().is_some() {
                        return Ok(());
                    }
                }
                () = tokio::time::sleep_until(down_since + LINK_PATIENCE) => {
                    if let Some(runtime) = self.runtime() {
                        self.give_up_container(&runtime).await;
                        return Ok(());
                    }
                    down_since = Instant::now();
                }
                _ = figures.tick() => {}
            }
        }
    }

    /// What an event means: nothing, another look, or trouble.
    async fn heed(
        &mut self,
        event: Result<Event, broadcast::error::RecvError>,
    ) -> Option<Result<(), Trouble>> {
        // Events were missed: look at everything.
        let Ok(event) = event else { return Some(Ok(())) };
        let Event::Container { id, name, action, exit_code, .. } = event else { return None };
        // The name alone is also that of the container before this one, whose end may be heard of late.
        let is_own = match &self.voice.state.client {
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
                self.home.journal.say(&why);
                // One that never got so far is broken: trying again at once would only heat the machine.
                Some(if std::mem::take(&mut self.was_up) { Ok(()) } else { Err(Trouble::transient(why)) })
            }
            ContainerAction::Removed => {
                self.home.journal.say(&format!("container {name} was removed"));
                Some(Ok(()))
            }
            ContainerAction::Renamed => Some(Ok(())),
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

    async fn give_up_container(&mut self, runtime: &Runtime) {
        let seconds = LINK_PATIENCE.as_secs();
        self.home.journal.say(&format!("the link is down for {seconds} s: making another container"));
        if let Err(error) = client::remove(runtime, &self.owner).await {
            self.home.journal.say(&error.report());
        }
    }

    /// Takes over what the link says, and remembers the ports that tunnels got.
    fn observe(&mut self, status: host::Status) -> Result<(), Trouble> {
        let Some(host) = &self.host else { return Ok(()) };
        self.voice.state.link = status.link;
        self.voice.state.tunnels.clear();
        for (id, name) in &self.carried {
            let Some(state) = status.tunnels.get(id) else { continue };
            let carried = CarriedTunnel {
                id: *id,
                state: state.clone(),
                counters: host.counters(*id).unwrap_or_default(),
            };
            if let Some(port) = carried.port() {
                self.ledger.learn(name, port);
            }
            self.voice.state.tunnels.insert(name.clone(), carried);
        }
        self.keep_if_changed()
    }

    fn keep_if_changed(&mut self) -> Result<(), Trouble> {
        if self.kept == self.ledger {
            return Ok(());
        }
        self.home.keep(&self.ledger).map_err(|error| Trouble::transient(report::chain(&error)))?;
        self.kept.clone_from(&self.ledger);
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.status().borrow().link == LinkState::Up)
    }

    fn unlink(&mut self) {
        self.host = None;
        self.network = None;
        let state = &mut self.voice.state;
        state.client = None;
        state.host_since = None;
        state.link = LinkState::default();
        state.tunnels.clear();
        self.carried.clear();
    }

    fn enter(&mut self, phase: Phase) {
        self.voice.state.phase = phase;
        self.tell();
    }

    fn tell(&mut self) {
        for line in self.voice.tell() {
            self.home.journal.say(&line);
        }
    }

    /// Waits for another order or another runtime.
    async fn wait(&mut self, phase: Phase) {
        self.voice.state.trouble = None;
        self.enter(phase);
        tokio::select! {
            _ = self.order_rx.changed() => {}
            _ = self.availability_rx.changed() => {}
        }
    }

    /// Waits before the next try, unless something changes that may help. What the link says is told meanwhile.
    async fn pause(&mut self, delay: Duration) {
        let until = Instant::now() + delay;
        let mut status_rx = self.host.as_ref().map(Host::status);
        loop {
            let said = async {
                match &mut status_rx {
                    Some(status_rx) => drop(status_rx.changed().await),
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

    /// Tells what the link says now.
    fn look(&mut self) {
        let status = self.host.as_ref().map(|host| host.status().borrow().clone());
        if let Some(Err(trouble)) = status.map(|status| self.observe(status)) {
            self.voice.state.trouble = Some(trouble);
        }
        self.tell();
    }

    /// Lets streams end, then removes everything that was made but the memory of the ports.
    async fn clear_up(mut self, drain: Duration, forget: bool) {
        self.enter(Phase::Ending);
        if let Some(host) = self.host.take() {
            self.home.journal.say(&format!("draining, at most {} s", drain.as_secs()));
            host.drain(drain).await;
        }
        self.unlink();
        let found = self.availability_rx.wait_for(|now| !matches!(now, Availability::Searching));
        let runtime = match timeout(SEARCH_PATIENCE, found).await {
            Ok(Ok(found)) => found.runtime().cloned(),
            _ => None,
        };
        let outcome = match &runtime {
            None => "no container runtime answers: what is left of the container is removed when one does",
            Some(runtime) => match timeout(REMOVE_PATIENCE, self.remove_container(runtime)).await {
                Ok(()) => "the container is removed",
                Err(_) => "the container can't be removed now: that is tried again",
            },
        };
        self.home.journal.say(outcome);
        if forget && let Err(error) = self.home.leave() {
            self.home.journal.say(&report::chain(&error));
        }
        self.voice.state.image = None;
        self.voice.state.trouble = None;
        self.enter(Phase::Gone);
    }

    async fn remove_container(&mut self, runtime: &Runtime) {
        let mut failures = 0;
        while let Err(error) = client::remove(runtime, &self.owner).await {
            failures += 1;
            self.voice.state.trouble = Some(Trouble::transient(error.report()));
            self.tell();
            sleep(RETRY.delay(failures, backoff::random())).await;
        }
    }
}

/// Whether the network may be there all the same.
fn is_doubt(lack: &Lack) -> bool {
    lack.reason == Reason::NetworkNotReady
}

/// Whether the same container serves both; tunnels come and go within one.
fn is_same_container(one: &Wish, other: &Wish) -> bool {
    one.aliases == other.aliases
        && one.base_image == other.base_image
        && (one.network == other.network || other.network.is_err())
}
