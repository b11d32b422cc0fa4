//! Follows the object and the Services behind it, and gives the runner a new plan whenever the meaning changes. What can't
//! be read at the moment stays as it was last known, and while the newest spec can't be run, the last good one is.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::report::chain;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::agent::{Config, Leave};
use crate::feed::{Feed, Which};
use crate::followed::{Followed, Needs, State, Surroundings};
use crate::known::{Bare, Known};
use crate::links::Links;
use crate::named::Named;
use crate::namespaces::Namespaces;
use crate::saved::{self, Saved, StateFile};
use crate::version::{Version, text};

/// How long the API server may take before the saved state is used.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the disk may take before what runs is told of all the same.
const WRITING: Duration = Duration::from_secs(2);
/// How often this machine's addresses are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Changes that come together are taken together.
const GATHER: Duration = Duration::from_millis(10);

/// Makes plans.
pub(crate) struct Follower<F: Followed> {
    followed: Arc<F>,
    object: Feed<F::Object>,
    namespaces: Namespaces,
    config_maps: Named<ConfigMap>,
    secrets: Named<Secret>,
    require_grants: bool,
    file: Option<StateFile<F::Object>>,
    accepted: Option<PathBuf>,
    /// Whether another object of the same name is none of this pod's: a Service leads here for as long as this pod is ready, and
    /// another plan may know nobody yet whom to send to.
    keeps: bool,
    /// Whether another one has the name.
    sees_another: bool,
    changed: Arc<Notify>,
    started: Instant,
    /// What the API server last had.
    newest: Option<Arc<Version<F>>>,
    /// What was last accepted, by this process or by an earlier one.
    good: Option<Arc<Version<F>>>,
    /// What was last known of the Services of `good`.
    known: Known,
    /// The addresses of the last plan that this machine had.
    here: Vec<IpAddr>,
    /// What was said of an API server that does not answer.
    has_warned: bool,
    /// What is on disk.
    saved: Option<Stored<F>>,
    /// What is on its way there.
    storing: Option<(Storing, Stored<F>)>,
    plan_tx: watch::Sender<Option<Arc<F::Plan>>>, // → runner
    state_tx: watch::Sender<Arc<State<F>>>,       // → reporter
}

/// A version, and what was known of its Services.
type Stored<F> = (Arc<Version<F>>, Known);

type Storing = JoinHandle<Result<(), saved::Error>>;

/// What became of a version.
enum Tried {
    /// Its plan runs.
    Runs,
    /// What it needs is not read yet.
    Waits,
    /// Nobody has said yet that it may be taken into use.
    Uncleared,
    /// It can't be run.
    Refused(String),
}

impl<F: Followed> Follower<F> {
    pub(crate) fn new(
        client: Client,
        followed: Arc<F>,
        config: &Config,
        plan_tx: watch::Sender<Option<Arc<F::Plan>>>,
        state_tx: watch::Sender<Arc<State<F>>>,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let Config { namespace, name, require_grants, state_dir, .. } = config;
        let object = Feed::start(
            Api::namespaced(client.clone(), namespace),
            &Which::Named(name.clone()),
            Arc::clone(&changed),
        );
        let kind = F::Object::kind(&());
        Self {
            followed,
            object,
            config_maps: Named::new(client.clone(), namespace, Arc::clone(&changed)),
            secrets: Named::new(client.clone(), namespace, Arc::clone(&changed)),
            namespaces: Namespaces::new(
                client,
                (&kind, namespace, name),
                F::IS_SUPPLIED,
                *require_grants,
                Arc::clone(&changed),
            ),
            require_grants: *require_grants,
            accepted: config.accepted.clone(),
            keeps: config.leave == Leave::Ready,
            sees_another: false,
            file: state_dir.as_ref().map(|dir| StateFile::new(dir, namespace, name)),
            changed,
            started: Instant::now(),
            newest: None,
            good: None,
            known: Known::default(),
            here: Vec::new(),
            has_warned: false,
            saved: None,
            storing: None,
            plan_tx,
            state_tx,
        }
    }

    /// Follows until cancelled.
    pub(crate) async fn run(mut self) -> Infallible {
        self.recall();
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                () = self.changed.notified() => tokio::time::sleep(GATHER).await,
                _ = look.tick() => if !self.is_waiting() && self.has_same_addresses() {
                    continue;
                },
            }
            self.step().await;
        }
    }

    /// Something that will be decided by time alone.
    fn is_waiting(&self) -> bool {
        self.newest.is_none()
            || self.storing.is_some()
            || self.namespaces.are_incomplete()
            || self.config_maps.are_incomplete()
            || self.secrets.are_incomplete()
    }

    fn has_same_addresses(&self) -> bool {
        self.good.as_ref().is_none_or(|good| here(&good.needs) == self.here)
    }

    /// Reads what an earlier process left, or what some pod accepted after that.
    fn recall(&mut self) {
        let saved = self.file.as_ref().map_or(Ok(None), StateFile::load).unwrap_or_else(unusable);
        let accepted = self.accepted.as_deref().map_or(Ok(None), saved::accepted).unwrap_or_else(unusable);
        let (object, known) = match (saved, accepted) {
            (Some(saved), Some(accepted)) if is_newer(&accepted, &saved.object) => (accepted, saved.known),
            (Some(saved), _) => (saved.object, saved.known),
            (None, Some(accepted)) => (accepted, Bare::default()),
            (None, None) => return,
        };
        self.good = Some(Arc::new(Version::new(&*self.followed, Arc::new(object))));
        self.known = known.into();
    }

    async fn step(&mut self) {
        self.read_object();
        self.follow_namespaces();
        let mut refused = None;
        // What is not cleared is as if it had not been read.
        let mut seen = self.newest.as_ref().and_then(|newest| newest.generation());
        if let Some(newest) = self.newest.clone() {
            match self.try_run(&newest, true) {
                Tried::Runs => return self.accept(newest, seen, None).await,
                Tried::Waits => return,
                Tried::Uncleared => seen = None,
                Tried::Refused(why) => refused = Some(why),
            }
        }
        if let Some(good) = self.last_good(refused.as_deref()) {
            // It was cleared when it was taken into use.
            match self.try_run(&good, false) {
                Tried::Runs => {
                    let seen = seen.or(good.generation());
                    return self.accept(good, seen, refused).await;
                }
                Tried::Waits | Tried::Uncleared => return,
                Tried::Refused(why) => tracing::warn!("the last good state can't be run any more: {why}"),
            }
        }
        if let (Some(why), Some(newest)) = (refused, &self.newest) {
            let generation = newest.generation();
            self.say(|state| {
                state.generation = generation;
                state.refused = Some(why);
            });
        }
    }

    /// Takes the object as the API server has it.
    fn read_object(&mut self) {
        if !self.object.is_complete() {
            return;
        }
        let kind = F::Object::kind(&());
        let (mut reported, mut is_shared) = (None, false);
        let objects = self.object.objects();
        self.sees_another = objects.first().is_some_and(|object| self.is_another(object));
        let trouble = match objects.first() {
            Some(_) if self.sees_another => {
                Some(format!("another {kind} has its name; the last state of its own runs on"))
            }
            Some(object) => {
                reported = self.followed.reported(object);
                is_shared = self.followed.is_shared(object);
                if self.newest.as_ref().is_none_or(|newest| !newest.is_same(object)) {
                    self.followed.observe(object);
                    self.newest = Some(Arc::new(Version::new(&*self.followed, Arc::clone(object))));
                }
                None
            }
            None if self.newest.is_some() => Some(format!("the {kind} was deleted; its last state runs on")),
            None => Some(format!("there is no such {kind} yet; waiting for it")),
        };
        let is_another = self.sees_another;
        self.say(|state| {
            state.trouble = trouble;
            state.reported = reported;
            state.is_shared = is_shared;
            state.is_another = is_another;
        });
    }

    /// Whether an object is not the one that this pod keeps to, which is the first that it had.
    fn is_another(&self, object: &F::Object) -> bool {
        let own = self.newest.as_ref().or(self.good.as_ref());
        self.keeps && own.is_some_and(|own| own.object.uid() != object.uid())
    }

    /// Watches the namespaces of what should run and of what runs.
    fn follow_namespaces(&mut self) {
        let versions = [&self.newest, &self.good];
        let services: BTreeSet<_> = versions
            .into_iter()
            .flatten()
            .flat_map(|version| version.needs.services.iter().cloned())
            .collect();
        self.namespaces.follow(&services, &self.known);
        let config_maps: BTreeSet<_> = versions
            .into_iter()
            .flatten()
            .flat_map(|version| version.needs.config_maps.iter().cloned())
            .collect();
        self.config_maps.follow(&config_maps);
        let secrets: BTreeSet<_> = versions
            .into_iter()
            .flatten()
            .flat_map(|version| version.needs.secrets.iter().cloned())
            .collect();
        self.secrets.follow(&secrets);
    }

    /// What to run while the newest version can't be: `refused` is why; without it the API server is silent, or the operator.
    fn last_good(&mut self, refused: Option<&str>) -> Option<Arc<Version<F>>> {
        let runs = self.plan_tx.borrow().is_some();
        if runs {
            return self.good.clone();
        }
        let good = match &self.newest {
            // Another object of the same name has nothing to do with this one.
            Some(newest) => self.good.clone().filter(|good| good.object.uid() == newest.object.uid()),
            None if self.sees_another => self.good.clone(),
            None if self.object.is_complete() || self.started.elapsed() < PATIENCE => return None,
            None => self.good.clone(),
        };
        if !std::mem::replace(&mut self.has_warned, true) {
            let why = match refused {
                Some(why) => format!("the spec is refused ({why})"),
                None if self.newest.is_some() => {
                    "the operator has not cleared the newest spec yet".to_owned()
                }
                None if self.sees_another => "another object has the name".to_owned(),
                None => {
                    format!("the API server does not answer ({})", self.object.trouble().unwrap_or_default())
                }
            };
            if good.is_some() {
                tracing::warn!("{why}; going on with the last good state");
            } else {
                tracing::warn!("{why} and there is no last state; waiting");
            }
        }
        good
    }

    /// Gives the runner the plan of this version, if there is one; one that is new must have been cleared.
    fn try_run(&mut self, version: &Version<F>, is_new: bool) -> Tried {
        let checked = match &version.checked {
            Ok(checked) => checked,
            Err(why) => return Tried::Refused(why.clone()),
        };
        let are_pending =
            self.namespaces.are_pending() || self.config_maps.are_pending() || self.secrets.are_pending();
        if self.object.is_complete() && are_pending {
            return Tried::Waits;
        }
        let (mut known, unread) = self.namespaces.read(&version.needs.services, &self.known);
        known.config_maps = self.config_maps.read(&version.needs.config_maps, &self.known.config_maps);
        known.secrets = self.secrets.read(&version.needs.secrets, &self.known.secrets);
        known.parts = self.namespaces.parts(&version.needs.parts, &self.known);
        let here = here(&version.needs);
        let surroundings = Surroundings {
            services: known.services(self.require_grants, unread),
            routes: known.routes(),
            here: here.clone(),
            interfaces: interfaces(&here),
            config_maps: known
                .config_maps
                .iter()
                .map(|(name, map)| (name.clone(), (**map).clone()))
                .collect(),
            secrets: known.secrets.clone(),
            parts: known.parts.clone(),
        };
        let running = self.plan_tx.borrow().clone();
        if is_new && !self.followed.is_cleared(checked, &surroundings, running.as_deref()) {
            return Tried::Uncleared;
        }
        let (plan, notes) = match self.followed.plan(checked, &surroundings, running.as_deref()) {
            Ok(planned) => planned,
            Err(problems) => return Tried::Refused(text(&problems)),
        };
        let plan = match running {
            Some(running) if *running == plan => running,
            _ => {
                let plan = Arc::new(plan);
                self.plan_tx.send_replace(Some(Arc::clone(&plan)));
                plan
            }
        };
        let neighbours = self.followed.neighbours(&surroundings);
        let addresses = version.needs.addresses.iter().copied();
        let absent = addresses.filter(|address| !here.contains(address)).collect();
        self.known = known;
        self.here.clone_from(&here);
        self.say(|state| {
            state.plan = Some(plan);
            state.notes = notes;
            state.here = here;
            state.absent = absent;
            state.neighbours = neighbours;
        });
        Tried::Runs
    }

    /// Remembers the version whose plan runs; `seen` is the generation that was looked at, and `refused` is why it is not
    /// that one. It is said when the next start has it, too, or can't have it: what is wrong with the disk is in the log, and keeps
    /// nothing from running.
    async fn accept(&mut self, version: Arc<Version<F>>, seen: Option<i64>, refused: Option<String>) {
        self.good = Some(Arc::clone(&version));
        self.save(&version).await;
        self.say(|state| {
            if let Some(why) = refused.as_ref().filter(|why| state.refused.as_ref() != Some(why)) {
                tracing::warn!("the spec is refused and the last good one runs on: {why}");
            }
            state.uid = version.object.uid();
            state.generation = seen;
            state.running = version.generation();
            state.refused = refused;
        });
    }

    fn say(&self, change: impl FnOnce(&mut State<F>)) {
        let before = Arc::clone(&self.state_tx.borrow());
        let mut next = State::clone(&before);
        change(&mut next);
        if let Some(trouble) =
            next.trouble.as_ref().filter(|trouble| before.trouble.as_ref() != Some(trouble))
        {
            tracing::warn!("{trouble}");
        }
        if next != *before {
            self.state_tx.send_replace(Arc::new(next));
        }
    }

    /// Keeps what runs for the next start, if it is new. One is written after the other, so that the last is the newest.
    async fn save(&mut self, version: &Arc<Version<F>>) {
        let Some(file) = self.file.clone() else { return };
        if !self.is_written(Duration::ZERO).await {
            return;
        }
        let is_saved = self.saved.as_ref().is_some_and(|(saved, known)| {
            (Arc::ptr_eq(saved, version) || saved.is_same(&version.object)) && known.is_same(&self.known)
        });
        if is_saved {
            return;
        }
        let (copy, known) = (Arc::clone(version), self.known.clone());
        let store = tokio::task::spawn_blocking(move || {
            let object = copy.bare().unwrap_or_else(|_| F::Object::clone(&copy.object));
            file.store(&Saved { object, known: known.bare() })
        });
        self.storing = Some((store, (Arc::clone(version), self.known.clone())));
        if !self.is_written(WRITING).await {
            tracing::warn!("the disk takes long; a start without the API server would not know the state");
        }
    }

    /// Whether nothing is on its way to the disk any more, after so long at most.
    async fn is_written(&mut self, patience: Duration) -> bool {
        let Some((store, _)) = &mut self.storing else { return true };
        let Ok(stored) = timeout(patience, store).await else { return false };
        let storing = self.storing.take();
        match stored {
            Ok(Ok(())) => self.saved = storing.map(|(_, stored)| stored),
            Ok(Err(error)) => {
                tracing::warn!("{}; a start without the API server would not know it", chain(&error));
            }
            Err(error) => tracing::warn!(%error, "the state was not saved"),
        }
        true
    }
}

/// Whether the first is a later version of the same object.
fn is_newer<O: Resource>(one: &O, other: &O) -> bool {
    one.meta().uid == other.meta().uid && one.meta().generation > other.meta().generation
}

fn unusable<T>(error: saved::Error) -> Option<T> {
    tracing::warn!("the last state can't be used: {}", chain(&error));
    None
}

/// The interfaces that have these addresses of this machine.
fn interfaces(here: &[IpAddr]) -> BTreeMap<IpAddr, String> {
    let links = Links::default();
    here.iter().filter_map(|address| Some((*address, links.interface_of(*address)?))).collect()
}

/// Those of the addresses that this machine has.
fn here(needs: &Needs) -> Vec<IpAddr> {
    needs.addresses.iter().copied().filter(|address| is_here(*address)).collect()
}

/// Whether an interface of this machine has the address. That a socket can be bound to it is not enough: with
/// `ip_nonlocal_bind` any can. Whatever is sent to an own address comes from that address; nothing is sent here.
fn is_here(address: IpAddr) -> bool {
    let from = UdpSocket::bind((address, 0)).and_then(|_| {
        let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    // All of 127.0.0.0/8 is here, by way of one of its addresses.
    from.is_ok_and(|from| from.ip() == address || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_loopback_from_an_address_elsewhere() {
        let addresses: Vec<IpAddr> = ["127.9.8.7", "192.0.2.1"].map(|text| text.parse().unwrap()).into();
        let needs = Needs { addresses: addresses.clone(), ..Needs::default() };
        assert_eq!(here(&needs), addresses[..1]);
    }

    /// The way out of this machine, if there is one, starts at an address that it has.
    #[test]
    fn knows_an_own_address_that_is_not_loopback() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            assert!(is_here(socket.local_addr().unwrap().ip()));
        }
    }

    /// The same in a network of its own where every address can be bound to.
    #[test]
    fn an_address_that_can_be_bound_to_need_not_be_here() {
        let this = std::env::current_exe().unwrap();
        let script = "ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind && exec \"$@\"";
        let ran = std::process::Command::new("unshare")
            .args(["--net", "--map-root-user", "sh", "-c", script, "sh"])
            .arg(this)
            .args(["--exact", "follower::tests::knows_loopback_from_an_address_elsewhere"])
            .output();
        match ran {
            Ok(ran) if ran.stderr.starts_with(b"unshare: ") || ran.status.code() == Some(127) => {
                causeway_testkit::peer::skip("a network namespace for addresses that are not here");
            }
            Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout)),
            Err(_) => causeway_testkit::peer::skip("unshare, for addresses that are not here"),
        }
    }
}
