//! Takes what all callers ask for within a moment, and brings it about with as few requests as there can be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use causeway_base::Backoff;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::set::Entry;
use super::{Api, Sent};
use crate::dns::{self, Change, Found, Progress, Step, Verdict, Zone};
use crate::{Error, Name};

/// How long a first caller waits for others.
const GATHER: Duration = Duration::from_millis(50);
/// Callers of one batch.
const CALLERS: usize = 4096;
/// Changes in one request; Route 53 takes 1,000, and those that replace count twice.
const BATCH: usize = 400;
/// How often a batch is planned anew when Route 53 refused it.
const ROUNDS: u32 = 4;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));
/// How old the word on a change may be.
const FRESH: Duration = Duration::from_secs(1);

pub(super) struct Job {
    pub(super) zone: Zone,
    pub(super) changes: Vec<Change>,
    pub(super) answer: oneshot::Sender<Vec<Result<Progress, Error>>>,
}

/// What this process knows of the last change of a name.
#[derive(Debug, Clone)]
struct Ticket {
    id: String,
    everywhere: bool,
    seen: Instant,
}

pub(super) struct Worker {
    api: Arc<Api>,
    queue: mpsc::Receiver<Job>,
    /// By zone and name.
    tickets: HashMap<(String, Name), Ticket>,
}

/// The names that one request can't bring about, and why.
type Failures = HashMap<Name, Error>;

impl Worker {
    pub(super) fn new(api: Arc<Api>, queue: mpsc::Receiver<Job>) -> Self {
        Self { api, queue, tickets: HashMap::new() }
    }

    pub(super) async fn run(mut self) {
        let mut jobs = Vec::new();
        while let Some(first) = self.queue.recv().await {
            jobs.push(first);
            sleep(GATHER).await;
            while jobs.len() < CALLERS
                && let Ok(job) = self.queue.try_recv()
            {
                jobs.push(job);
            }
            // Nobody waits for those any more, but it may be half done: they ask again.
            jobs.retain(|job| !job.answer.is_closed());
            let mut zones: BTreeMap<String, Vec<Job>> = BTreeMap::new();
            for job in jobs.drain(..) {
                zones.entry(job.zone.id.clone()).or_default().push(job);
            }
            for jobs in zones.into_values() {
                self.serve(jobs).await;
            }
        }
    }

    async fn serve(&mut self, jobs: Vec<Job>) {
        let Some(zone) = jobs.first().map(|job| job.zone.clone()) else { return };
        let changes: Vec<Change> = jobs.iter().flat_map(|job| job.changes.iter().cloned()).collect();
        let outcomes = match self.bring_about(&zone, &changes).await {
            Ok(outcomes) => outcomes,
            Err(error) => dns::for_each(&changes, &error),
        };
        let mut outcomes = outcomes.into_iter();
        for job in jobs {
            let own = outcomes.by_ref().take(job.changes.len()).collect();
            // Whoever has gone asks again.
            let _ = job.answer.send(own);
        }
    }

    async fn bring_about(
        &mut self,
        zone: &Zone,
        changes: &[Change],
    ) -> Result<Vec<Result<Progress, Error>>, Error> {
        let mut names: Vec<Name> = changes.iter().map(|change| change.name.clone()).collect();
        names.sort();
        names.dedup();
        let mut entries = self.api.read(zone, &names).await?;
        self.refresh(zone, &names).await?;
        let mut failures = Failures::new();
        let mut refused = 0;
        // Removing takes three: the records, the mark once they are gone everywhere, and the look that nothing is left.
        let steps = loop {
            let found = entries.iter().map(|(name, entry)| (name.clone(), entry.found.clone())).collect();
            let plan = self.api.planner(zone).plan(changes, found);
            let mut writes = self.writes(zone, changes, &plan.steps, &entries);
            writes.retain(|name, _| !failures.contains_key(name));
            if writes.is_empty() {
                break plan.steps;
            }
            let size = if refused == 0 { BATCH } else { 1 };
            let overtaken = self.write(zone, &mut entries, writes, size).await?;
            if overtaken.is_empty() {
                continue;
            }
            refused += 1;
            if refused >= ROUNDS {
                for (name, said) in overtaken {
                    let what = format!("Route 53 refuses the change of {name} ({said})");
                    let remedy = "see whether somebody else changes the name all the time, or the record is not allowed";
                    failures.insert(name, Error::invalid(what, remedy));
                }
                continue;
            }
            sleep(BACKOFF.delay(refused)).await;
            let names: Vec<Name> = overtaken.into_keys().collect();
            entries.extend(self.api.read(zone, &names).await?);
        };
        let outcome = |(change, step): (&Change, Step)| match step.verdict {
            Verdict::Refuse(error) => Err(error),
            Verdict::Keep | Verdict::Write { .. } => match failures.get(&step.name) {
                Some(error) => Err(error.clone()),
                None => Ok(self.progress(zone, change)),
            },
        };
        Ok(changes.iter().zip(steps).map(outcome).collect())
    }

    fn progress(&self, zone: &Zone, change: &Change) -> Progress {
        match self.ticket(zone, &change.name) {
            Some(Ticket { everywhere: false, id, .. }) => {
                Progress::Pending { waits_for: format!("Route 53 to serve it everywhere (change {id})") }
            }
            _ => Progress::Settled,
        }
    }

    fn ticket(&self, zone: &Zone, name: &Name) -> Option<&Ticket> {
        self.tickets.get(&(zone.id.clone(), name.clone()))
    }

    /// Asks how far the changes of these names are, once for each change.
    async fn refresh(&mut self, zone: &Zone, names: &[Name]) -> Result<(), Error> {
        let mut known: HashMap<String, bool> = HashMap::new();
        for name in names {
            let Some(ticket) = self.tickets.get_mut(&(zone.id.clone(), name.clone())) else { continue };
            if ticket.everywhere || ticket.seen.elapsed() < FRESH {
                continue;
            }
            let everywhere = match known.get(&ticket.id) {
                Some(everywhere) => *everywhere,
                None => self.api.is_everywhere(&ticket.id).await?,
            };
            known.insert(ticket.id.clone(), everywhere);
            (ticket.everywhere, ticket.seen) = (everywhere, Instant::now());
        }
        Ok(())
    }

    /// What is to be written at each name: what the plan says, and what tells whether it is served.
    fn writes(
        &self,
        zone: &Zone,
        changes: &[Change],
        steps: &[Step],
        entries: &BTreeMap<Name, Entry>,
    ) -> BTreeMap<Name, Found> {
        let mut writes = BTreeMap::new();
        for (change, Step { name, verdict }) in changes.iter().zip(steps) {
            match verdict {
                Verdict::Refuse(_) => {}
                Verdict::Write { after, .. } => {
                    writes.insert(name.clone(), after.clone());
                }
                Verdict::Keep if writes.contains_key(name) => {}
                Verdict::Keep => {
                    let found = entries.get(name).map(|entry| entry.found.clone()).unwrap_or_default();
                    if let Some(after) = self.beside(change, &found, self.ticket(zone, name)) {
                        writes.insert(name.clone(), after);
                    }
                }
            }
        }
        writes
    }

    /// What is written although the name is as it should be.
    fn beside(&self, change: &Change, found: &Found, ticket: Option<&Ticket>) -> Option<Found> {
        let mine = |owner: &&dns::Owner| owner.instance == self.api.instance && owner.object == change.object;
        let mine = found.owners.iter().find(mine)?;
        match ticket {
            // What was there is gone everywhere: so goes its mark.
            Some(Ticket { everywhere: true, .. }) if mine.leaving => {
                let mut after = found.clone();
                after.owners.remove(mine);
                Some(after)
            }
            // Written by an earlier process that may not have waited: the same once more, to be told.
            None if mine.leaving || change.settled.as_ref() != Some(&change.want) => Some(found.clone()),
            _ => None,
        }
    }

    /// Writes, and gives those names that Route 53 refused to change, with what it said.
    async fn write(
        &mut self,
        zone: &Zone,
        entries: &mut BTreeMap<Name, Entry>,
        writes: BTreeMap<Name, Found>,
        size: usize,
    ) -> Result<BTreeMap<Name, String>, Error> {
        let mut refused = BTreeMap::new();
        let mut batch: Vec<(Name, Entry)> = Vec::new();
        let mut changes = Vec::new();
        let mut left = writes.into_iter().peekable();
        while let Some((name, after)) = left.next() {
            let before = entries.get(&name).cloned().unwrap_or_default();
            let (own, next) = before.rewrite(&name, &after)?;
            changes.extend(own);
            batch.push((name, next));
            if changes.len() < size && left.peek().is_some() {
                continue;
            }
            match self.api.send(zone, std::mem::take(&mut changes)).await? {
                Sent::Refused(said) => refused.extend(batch.drain(..).map(|(name, _)| (name, said.clone()))),
                Sent::Done { id, everywhere } => {
                    for (name, next) in batch.drain(..) {
                        let key = (zone.id.clone(), name.clone());
                        if next.found.owners.is_empty() {
                            // Nothing of ours is left to be told about.
                            self.tickets.remove(&key);
                        } else {
                            let ticket = Ticket { id: id.clone(), everywhere, seen: Instant::now() };
                            self.tickets.insert(key, ticket);
                        }
                        entries.insert(name, next);
                    }
                }
            }
        }
        Ok(refused)
    }
}
