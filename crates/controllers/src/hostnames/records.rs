//! What is in DNS: what was asked for last, what became of it, and when to ask again. All changes of a zone go together, and no
//! zone waits for another one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_api::{DnsProviderKind, conditions::Reason};
use causeway_base::{
    backoff::{Backoff, spread},
    lock::lock,
};
use causeway_providers::{
    Error, Name, Retry,
    dns::{Change, DnsProvider, Progress as Reached, Verdict, Wanted, Zone as ProviderZone},
};
use causeway_translate::hostname::{
    Hostname, Picture, Want, Zone, ZoneKey,
    world::{Progress, Told},
};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    metrics::{Figures, Role},
    settings::SuppliersRef,
    status::{is_of_provider, said},
};

/// How soon what is not served yet is looked at again.
const SOON: Duration = Duration::from_millis(500);
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
/// When something is looked at again that somebody else has to change.
const ON_CHANGE: Duration = Duration::from_mins(1);
/// The longest word for an object in the mark beside a name.
const LONGEST_OBJECT: usize = 100;

type Key = (ZoneKey, Hostname, String);
/// A zone at its provider, and its own name: requests may give an id that is another one's.
type Place = (ZoneKey, Hostname);

/// What is known of all records.
pub(super) struct Records {
    suppliers: SuppliersRef,
    sweep: Duration,
    now: fn() -> Timestamp,
    known: Mutex<BTreeMap<Key, Known>>,
    zones: Mutex<BTreeMap<Place, Standing>>,
}

/// How a zone stands at its providers.
struct Standing {
    /// What it was then.
    zone: Zone,
    /// As its provider has it.
    there: Option<ProviderZone>,
    /// What is wrong with it as a whole.
    broken: Option<(Reason, String)>,
    /// Since when, in seconds since 1970.
    failing: Option<i64>,
    /// When that is to be looked at again though nobody asks for anything.
    again: Instant,
}

struct Known {
    told: Told,
    /// What was served last for this request.
    settled: Option<Wanted>,
    again: Instant,
    failures: u32,
    /// Since when its provider fails, in seconds since 1970.
    failing: Option<i64>,
}

/// A change that is due.
struct Due {
    key: Key,
    object: String,
    want: Want,
    settled: Option<Wanted>,
    /// Nobody is known to have touched it.
    is_sweep: bool,
    /// It is served, as far as is known: it was when it was looked at last, or the request's status says so.
    is_served: bool,
}

/// What came of a round.
#[derive(Default)]
pub(super) struct Round {
    /// Whether something is known that was not.
    pub(super) moved: bool,
    /// Names that somebody changed, with the uid of the request and what was found.
    pub(super) drifted: Vec<(String, String)>,
    /// When the next change is due.
    pub(super) again: Option<Duration>,
}

impl Round {
    fn join(&mut self, other: Self) {
        self.moved |= other.moved;
        self.drifted.extend(other.drifted);
    }
}

impl Records {
    pub(super) fn new(suppliers: SuppliersRef, sweep: Duration, now: fn() -> Timestamp) -> Self {
        Self { suppliers, sweep, now, known: Mutex::default(), zones: Mutex::default() }
    }

    /// What providers said last.
    pub(super) fn told(&self) -> BTreeMap<Key, Told> {
        lock(&self.known).iter().map(|(key, known)| (key.clone(), known.told.clone())).collect()
    }

    /// Looks again at all that is settled with these providers, as somebody has written where it is kept.
    pub(super) fn look_again(&self, provider: DnsProviderKind) {
        let zones: BTreeSet<ZoneKey> = lock(&self.zones)
            .iter()
            .filter(|(_, standing)| standing.zone.dns.provider == provider)
            .map(|((key, _), _)| key.clone())
            .collect();
        for (key, known) in lock(&self.known).iter_mut() {
            if known.told.progress == Progress::Settled && zones.contains(&key.0) {
                known.again = Instant::now();
            }
        }
    }

    /// Since when the first of the zones' providers fails that fail, in seconds since 1970.
    pub(super) fn failing(&self) -> Option<i64> {
        let records = lock(&self.known).values().filter_map(|known| known.failing).min();
        let zones = lock(&self.zones).values().filter_map(|standing| standing.failing).min();
        [records, zones].into_iter().flatten().min()
    }

    fn seconds(&self) -> i64 {
        (self.now)().as_second()
    }

    /// Whether a zone's provider has it.
    pub(super) fn is_there(&self, key: &ZoneKey) -> bool {
        lock(&self.zones).iter().any(|((zone, _), standing)| zone == key && standing.there.is_some())
    }

    /// What is wrong with zones as a whole.
    pub(super) fn broken(&self) -> BTreeMap<ZoneKey, (Reason, String)> {
        let zones = lock(&self.zones);
        zones.iter().filter_map(|(key, standing)| Some((key.0.clone(), standing.broken.clone()?))).collect()
    }

    /// Asks for everything of a picture that is new, not settled or has not been looked at for long; forgets the rest. Zones
    /// that nobody asks anything of are looked at, too.
    pub(super) async fn carry(&self, picture: &Picture, zones: Vec<Zone>, figures: &Figures) -> Round {
        let mut work: BTreeMap<Place, (Zone, Vec<Due>)> =
            zones.into_iter().map(|zone| (place(&zone), (zone, Vec::new()))).collect();
        let swept = self.swept(picture);
        let mut wanted: Vec<Key> = Vec::new();
        for case in picture.cases.values() {
            for publication in &case.publications {
                let key = (publication.zone.key.clone(), publication.name.clone(), case.uid.clone());
                wanted.push(key.clone());
                let object = case.at.to_string();
                let object = if object.len() > LONGEST_OBJECT { case.uid.clone() } else { object };
                let before = publication.before.as_ref().and_then(wish);
                let entry = work.entry(place(&publication.zone));
                let (_, all) = entry.or_insert_with(|| (publication.zone.clone(), Vec::new()));
                let is_swept = swept.contains(&place(&publication.zone));
                all.extend(self.due(key, object, &publication.want, before, is_swept));
            }
        }
        wanted.sort();
        // A name that nobody speaks of any more is left as it is, and not remembered.
        lock(&self.known).retain(|key, _| wanted.binary_search(key).is_ok());
        // A zone that was changed is looked at anew.
        lock(&self.zones)
            .retain(|key, standing| work.get(key).is_some_and(|(zone, _)| *zone == standing.zone));
        let rounds = work.into_values().map(|(zone, due)| self.carry_zone(zone, due, figures));
        let mut round = Round::default();
        for one in join_all(rounds).await {
            round.join(one);
        }
        let records = lock(&self.known).values().map(|known| known.again).min();
        let zones = lock(&self.zones).values().map(|standing| standing.again).min();
        let next = [records, zones].into_iter().flatten().min();
        round.again = next.map(|at| at.saturating_duration_since(Instant::now()));
        round
    }

    /// The zones that are looked at though nobody is known to have touched them: all that is settled there is looked at together,
    /// which is one reading of the zone.
    fn swept(&self, picture: &Picture) -> BTreeSet<Place> {
        let (known, now) = (lock(&self.known), Instant::now());
        let mut swept = BTreeSet::new();
        for (uid, case) in &picture.cases {
            for publication in &case.publications {
                let key = (publication.zone.key.clone(), publication.name.clone(), uid.clone());
                let is_due = known.get(&key).is_some_and(|known| {
                    known.told.want == publication.want
                        && known.told.progress == Progress::Settled
                        && known.again <= now
                });
                if is_due {
                    swept.insert(place(&publication.zone));
                }
            }
        }
        swept
    }

    fn due(
        &self,
        key: Key,
        object: String,
        want: &Want,
        before: Option<Wanted>,
        is_swept: bool,
    ) -> Option<Due> {
        let known = lock(&self.known);
        let was_served = before.is_some() && before == wish(want);
        let (settled, is_sweep, is_served) = match known.get(&key) {
            Some(known) if known.told.want == *want => {
                let is_settled = known.told.progress == Progress::Settled;
                if known.again > Instant::now() && !(is_settled && is_swept) {
                    return None;
                }
                (known.settled.clone(), is_settled, is_settled)
            }
            Some(known) => (known.settled.clone(), false, false),
            None => (before, false, was_served),
        };
        Some(Due { key, object, want: want.clone(), settled, is_sweep, is_served })
    }

    async fn carry_zone(&self, zone: Zone, due: Vec<Due>, figures: &Figures) -> Round {
        let mut round = Round::default();
        let is_quiet = due.is_empty();
        if is_quiet
            && lock(&self.zones).get(&place(&zone)).is_some_and(|standing| standing.again > Instant::now())
        {
            return round;
        }
        let provider = match self.suppliers.0.dns(&zone).await {
            Ok(provider) => provider,
            Err(error) => {
                self.all_failed(zone, due, &error, figures, &mut round);
                return round;
            }
        };
        let there = match self.find_zone(&*provider, &zone, is_quiet).await {
            Ok(there) => there,
            Err(error) => {
                self.all_failed(zone, due, &error, figures, &mut round);
                return round;
            }
        };
        if is_quiet {
            return round;
        }
        let mut changes = Vec::with_capacity(due.len());
        let mut asked = Vec::with_capacity(due.len());
        for due in due {
            match (Name::parse(due.key.1.as_str()), wish(&due.want)) {
                (Ok(name), Some(want)) => {
                    changes.push(Change {
                        name,
                        object: due.object.clone(),
                        want,
                        settled: due.settled.clone(),
                    });
                    asked.push(due);
                }
                (Err(error), _) => self.remember(due, Err(error), figures, &mut round),
                (Ok(name), None) => {
                    let error = Error::Invalid {
                        what: format!("{name} can't lead to {:?}", due.want),
                        remedy: "the gateway's address must be a name or an address".to_owned(),
                    };
                    self.remember(due, Err(error), figures, &mut round);
                }
            }
        }
        if changes.is_empty() {
            return round;
        }
        // What was in place and is not any more was changed by somebody.
        let swept: Vec<Change> = changes
            .iter()
            .zip(&asked)
            .filter(|(_, due)| due.is_served)
            .map(|(change, _)| change.clone())
            .collect();
        if !swept.is_empty()
            && let Ok(plan) = provider.plan(&there, &swept).await
        {
            let drifted: BTreeMap<String, String> = plan
                .steps
                .iter()
                .filter_map(|step| match &step.verdict {
                    Verdict::Write { before, .. } => Some((step.name.to_string(), before.to_string())),
                    Verdict::Keep | Verdict::Refuse(_) => None,
                })
                .collect();
            for due in &mut asked {
                let Some(found) = drifted.get(due.key.1.as_str()).filter(|_| due.is_served) else { continue };
                due.is_served = false;
                if due.is_sweep {
                    figures.drifted();
                    round
                        .drifted
                        .push((due.key.2.clone(), format!("{} had {found}; it is put right", due.key.1)));
                }
            }
        }
        let outcomes = provider.apply(&there, &changes).await;
        if outcomes
            .iter()
            .any(|outcome| matches!(outcome, Err(Error::Denied { .. } | Error::ZoneNotFound { .. })))
        {
            // Whoever puts that right may do it with other credentials, or another zone.
            self.suppliers.0.forget(&zone);
            if let Some(standing) = lock(&self.zones).get_mut(&place(&zone)) {
                standing.there = None;
            }
        }
        for (due, outcome) in asked.into_iter().zip(outcomes) {
            self.remember(due, outcome, figures, &mut round);
        }
        round
    }

    /// Who writes the records of a zone, and the zone as he has it.
    ///
    /// # Errors
    /// When the provider can't be had, or does not know the zone.
    pub(super) async fn provider(&self, zone: &Zone) -> Result<(Arc<dyn DnsProvider>, ProviderZone), Error> {
        let provider = self.suppliers.0.dns(zone).await?;
        let there = self.find_zone(&*provider, zone, false).await?;
        Ok((provider, there))
    }

    /// The zone as its provider has it; asked for once, unless it is to be known how that stands now.
    async fn find_zone(
        &self,
        provider: &dyn DnsProvider,
        zone: &Zone,
        anew: bool,
    ) -> Result<ProviderZone, Error> {
        let known = lock(&self.zones).get(&place(zone)).and_then(|standing| standing.there.clone());
        if let Some(known) = known.filter(|_| !anew) {
            return Ok(known);
        }
        let is_aws = zone.dns.provider == DnsProviderKind::Aws;
        let found = provider.zone(if is_aws { &zone.key.id } else { zone.domain.as_str() }).await?;
        // An id may be that of a zone above the domain. Where a request gives it, each of its names is looked at by itself.
        let is_of_domain = if is_aws {
            zone.key.name.is_none() || zone.domain.is_in(found.domain.as_str())
        } else {
            found.domain.as_str() == zone.domain.as_str()
        };
        if !is_of_domain {
            return Err(Error::ZoneNotFound {
                zone: format!("{} for {} (it is that of {})", zone.key.id, zone.domain, found.domain),
                at: if is_aws { "Route 53" } else { "its name server" }.to_owned(),
            });
        }
        let there = Some(found.clone());
        let again = Instant::now() + spread(self.sweep);
        let standing = Standing { zone: zone.clone(), there, broken: None, failing: None, again };
        lock(&self.zones).insert(place(zone), standing);
        Ok(found)
    }

    fn all_failed(&self, zone: Zone, due: Vec<Due>, error: &Error, figures: &Figures, round: &mut Round) {
        let (reason, message) = said(error);
        figures.failed(Role::Dns);
        self.suppliers.0.forget(&zone);
        let broken = Some((reason, message.clone()));
        let again = Instant::now() + spread(ON_CHANGE).min(self.sweep);
        let failing = {
            let zones = lock(&self.zones);
            let before = zones.get(&place(&zone));
            round.moved |= before.is_none_or(|before| before.broken != broken);
            before.and_then(|before| before.failing)
        };
        let failing = Some(failing.unwrap_or_else(|| self.seconds()));
        let standing = Standing { there: None, broken, failing, again, zone };
        lock(&self.zones).insert(place(&standing.zone), standing);
        for due in due {
            self.keep(due, Progress::Failed(reason, message.clone()), Some(error), round);
        }
    }

    fn remember(&self, due: Due, outcome: Result<Reached, Error>, figures: &Figures, round: &mut Round) {
        match outcome {
            Ok(Reached::Settled) => self.keep(due, Progress::Settled, None, round),
            Ok(Reached::Pending { waits_for }) => self.keep(due, Progress::Pending(waits_for), None, round),
            Err(error) => {
                figures.failed(Role::Dns);
                let (reason, message) = said(&error);
                self.keep(due, Progress::Failed(reason, message), Some(&error), round);
            }
        }
    }

    fn keep(&self, due: Due, progress: Progress, error: Option<&Error>, round: &mut Round) {
        let retry = error.map(Error::retry);
        let mut known = lock(&self.known);
        let before = known.get(&due.key).filter(|before| before.told.want == due.want);
        let failures = match (&progress, before) {
            (Progress::Failed(..), Some(before)) => before.failures.saturating_add(1),
            (Progress::Failed(..), None) => 1,
            _ => 0,
        };
        let wait = match (&progress, retry) {
            (Progress::Settled, _) => spread(self.sweep),
            (Progress::Pending(_), _) => SOON,
            (Progress::Failed(..), Some(Retry::After(wait))) => spread(wait),
            (Progress::Failed(..), Some(Retry::OnChange)) => spread(ON_CHANGE).min(self.sweep),
            (Progress::Failed(..), _) => RETRY.delay(failures),
        };
        // What nobody has touched is served as before, while what its provider does for others is on its way, or while he can't be
        // asked.
        let is_passing = matches!(
            (&progress, retry),
            (Progress::Pending(_), _) | (Progress::Failed(..), Some(Retry::Backoff | Retry::After(_)))
        );
        let stays = is_passing && due.is_served && due.want != Want::Nothing;
        let progress = if stays { Progress::Settled } else { progress };
        round.moved |= before.is_none_or(|before| before.told.progress != progress);
        let settled = if progress == Progress::Settled { wish(&due.want) } else { due.settled };
        let failing = error.filter(|error| is_of_provider(error)).map(|_| {
            let before = before.and_then(|before| before.failing);
            before.unwrap_or_else(|| self.seconds())
        });
        let told = Told { want: due.want, progress };
        known.insert(due.key, Known { told, settled, again: Instant::now() + wait, failures, failing });
    }
}

fn place(zone: &Zone) -> Place {
    (zone.key.clone(), zone.domain.clone())
}

/// A wish in the provider's words; none where it makes no sense there.
pub(super) fn wish(want: &Want) -> Option<Wanted> {
    Some(match want {
        Want::Nothing => Wanted::Nothing,
        Want::Addresses(addresses, ttl) => Wanted::Addresses { addresses: addresses.clone(), ttl: *ttl },
        Want::Balancer(target, ttl) => {
            Wanted::Balancer { target: Name::parse(target).ok()?, hosted_zone: None, ttl: *ttl }
        }
        Want::Canonical(target, ttl) => Wanted::Canonical { target: Name::parse(target).ok()?, ttl: *ttl },
        Want::Texts(texts, ttl) => Wanted::Texts { texts: texts.clone(), ttl: *ttl },
    })
}
