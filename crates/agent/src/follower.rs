//! Follows the object and the Services behind it, and gives the runner a new plan whenever the meaning changes. What can't
//! be read at the moment stays as it was last known, and while the newest spec can't be run, the last good one is.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use causeway_base::report::chain;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::agent::Config;
use crate::feed::Feed;
use crate::followed::{Followed, Needs, State, Surroundings};
use crate::known::Known;
use crate::namespaces::Namespaces;
use crate::saved::{Saved, StateFile};
use crate::version::{Version, text};

/// How long the API server may take before the saved state is used.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often this machine's addresses are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Changes that come together are taken together.
const GATHER: Duration = Duration::from_millis(10);

/// Makes plans.
pub(crate) struct Follower<F: Followed> {
    followed: Arc<F>,
    object: Feed<F::Object>,
    namespaces: Namespaces,
    require_grants: bool,
    file: Option<StateFile<F::Object>>,
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
    saved: Option<(Arc<Version<F>>, Known)>,
    plan_tx: watch::Sender<Option<Arc<F::Plan>>>, // → runner
    state_tx: watch::Sender<Arc<State<F>>>,       // → reporter
}

/// What became of a version.
enum Tried {
    /// Its plan runs.
    Runs,
    /// What it needs is not read yet.
    Waits,
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
        let object =
            Feed::start(Api::namespaced(client.clone(), namespace), Some(name), Arc::clone(&changed));
        Self {
            followed,
            object,
            namespaces: Namespaces::new(client, namespace, *require_grants, Arc::clone(&changed)),
            require_grants: *require_grants,
            file: state_dir.as_ref().map(|dir| StateFile::new(dir, namespace, name)),
            changed,
            started: Instant::now(),
            newest: None,
            good: None,
            known: Known::default(),
            here: Vec::new(),
            has_warned: false,
            saved: None,
            plan_tx,
            state_tx,
        }
    }

    /// Follows until cancelled.
    pub(crate) async fn run(mut self) {
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
        self.newest.is_none() || self.namespaces.are_incomplete()
    }

    fn has_same_addresses(&self) -> bool {
        self.good.as_ref().is_none_or(|good| here(&good.needs) == self.here)
    }

    /// Reads what an earlier process left.
    fn recall(&mut self) {
        match self.file.as_ref().map(StateFile::load) {
            Some(Ok(Some(saved))) => {
                self.good = Some(Arc::new(Version::new(&*self.followed, Arc::new(saved.object))));
                self.known = saved.namespaces.into();
            }
            Some(Err(error)) => tracing::warn!("the last state can't be used: {}", chain(&error)),
            Some(Ok(None)) | None => {}
        }
    }

    async fn step(&mut self) {
        self.read_object();
        self.follow_namespaces();
        let mut refused = None;
        if let Some(newest) = self.newest.clone() {
            match self.try_run(&newest) {
                Tried::Runs => return self.accept(newest, None).await,
                Tried::Waits => return,
                Tried::Refused(why) => refused = Some(why),
            }
        }
        if let Some(good) = self.last_good(refused.as_deref()) {
            match self.try_run(&good) {
                Tried::Runs => return self.accept(good, refused).await,
                Tried::Waits => return,
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
        let trouble = match self.object.objects().first() {
            Some(object) => {
                if self.newest.as_ref().is_none_or(|newest| !newest.is_same(object)) {
                    self.followed.observe(object);
                    self.newest = Some(Arc::new(Version::new(&*self.followed, Arc::clone(object))));
                }
                None
            }
            None if self.newest.is_some() => Some(format!("the {kind} was deleted; its last state runs on")),
            None => Some(format!("there is no such {kind} yet; waiting for it")),
        };
        self.say(|state| state.trouble = trouble);
    }

    /// Watches the namespaces of what should run and of what runs.
    fn follow_namespaces(&mut self) {
        let versions = [&self.newest, &self.good];
        let services: BTreeSet<_> = versions
            .into_iter()
            .flatten()
            .flat_map(|version| version.needs.services.iter().cloned())
            .collect();
        self.namespaces.follow(&services);
    }

    /// What to run while the newest version can't be: `refused` is why, and without it the API server is silent.
    fn last_good(&mut self, refused: Option<&str>) -> Option<Arc<Version<F>>> {
        let runs = self.plan_tx.borrow().is_some();
        if runs {
            return self.good.clone();
        }
        let good = match &self.newest {
            // Another object of the same name has nothing to do with this one.
            Some(newest) => self.good.clone().filter(|good| good.object.uid() == newest.object.uid()),
            None if self.object.is_complete() || self.started.elapsed() < PATIENCE => return None,
            None => self.good.clone(),
        };
        if !std::mem::replace(&mut self.has_warned, true) {
            let why = match refused {
                Some(why) => format!("the spec is refused ({why})"),
                None => {
                    format!("the API server does not answer ({})", self.object.trouble().unwrap_or_default())
                }
            };
            if good.is_some() {
                tracing::warn!("{why}; going on with the last state on disk");
            } else {
                tracing::warn!("{why} and there is no last state; waiting");
            }
        }
        good
    }

    /// Gives the runner the plan of this version, if there is one.
    fn try_run(&mut self, version: &Version<F>) -> Tried {
        let checked = match &version.checked {
            Ok(checked) => checked,
            Err(why) => return Tried::Refused(why.clone()),
        };
        if self.object.is_complete() && self.namespaces.are_pending() {
            return Tried::Waits;
        }
        let (known, unread) = self.namespaces.read(&version.needs.services, &self.known);
        let here = here(&version.needs);
        let services = known.services(self.require_grants, unread);
        let surroundings = Surroundings { services, here: here.clone() };
        let running = self.plan_tx.borrow().clone();
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
        self.known = known;
        self.here = here;
        self.say(|state| {
            state.plan = Some(plan);
            state.notes = notes;
        });
        Tried::Runs
    }

    /// Remembers the version whose plan runs; `refused` is why it is not the newest.
    async fn accept(&mut self, version: Arc<Version<F>>, refused: Option<String>) {
        let generation = self.newest.as_ref().unwrap_or(&version).generation();
        self.good = Some(Arc::clone(&version));
        self.say(|state| {
            if let Some(why) = refused.as_ref().filter(|why| state.refused.as_ref() != Some(why)) {
                tracing::warn!("the spec is refused and the last good one runs on: {why}");
            }
            state.generation = generation;
            state.refused = refused;
        });
        self.save(version).await;
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

    /// Keeps what runs for the next start, if it is new.
    async fn save(&mut self, version: Arc<Version<F>>) {
        let Some(file) = self.file.clone() else { return };
        let is_saved = self.saved.as_ref().is_some_and(|(saved, known)| {
            (Arc::ptr_eq(saved, &version) || saved.is_same(&version.object)) && known.is_same(&self.known)
        });
        if is_saved {
            return;
        }
        let (copy, known) = (Arc::clone(&version), self.known.clone());
        let store = tokio::task::spawn_blocking(move || {
            let object = copy.bare().unwrap_or_else(|_| F::Object::clone(&copy.object));
            file.store(&Saved { object, namespaces: known.bare() })
        });
        match store.await {
            Ok(Ok(())) => self.saved = Some((version, self.known.clone())),
            Ok(Err(error)) => {
                tracing::warn!("{}; a start without the API server would not know it", chain(&error));
            }
            Err(error) => tracing::warn!(%error, "the state was not saved"),
        }
    }
}

/// Those of the addresses that this machine has, found out by trying: an address that a socket can be bound to is one.
fn here(needs: &Needs) -> Vec<IpAddr> {
    needs.addresses.iter().copied().filter(|address| UdpSocket::bind((*address, 0)).is_ok()).collect()
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
}
