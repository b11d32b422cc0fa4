//! Dynamic updates of DNS (RFC 2136), signed with TSIG (RFC 8945), as BIND, Knot and PowerDNS take them.
//!
//! A change is one message whose prerequisites are what was read before: the server applies all of it, or nothing if
//! somebody else was there in between.

mod connection;
mod message;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use causeway_base::Backoff;
use causeway_base::backoff::Retries;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::sleep;

use crate::dns::{self, Change, DnsProvider, Found, Plan, Planner, Progress, Verdict, Zone};
use crate::{Error, Name, Secret};

use connection::Connection;
use message::Answer;

/// Who is told of changes, and how.
#[derive(Clone)]
pub struct Settings {
    /// The controller, as it is named in marks.
    pub instance: String,
    /// The primary server, as `address:port` or `name:port`; the port may be left out (53).
    pub server: String,
    /// The key that changes are signed with; without one they are not signed.
    pub key: Option<Key>,
    /// Further servers that must answer with a change before it is settled, written as the primary.
    pub answered_by: Vec<String>,
}

/// A key of TSIG.
#[derive(Clone)]
pub struct Key {
    /// Its name, as the server has it.
    pub name: Name,
    /// How it signs.
    pub algorithm: Algorithm,
    /// The secret in base64, as servers are configured with it.
    pub secret: Secret,
}

/// How a key signs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// `hmac-sha256`.
    #[default]
    HmacSha256,
    /// `hmac-sha384`.
    HmacSha384,
    /// `hmac-sha512`.
    HmacSha512,
}

impl std::str::FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "hmac-sha256" => Ok(Self::HmacSha256),
            "hmac-sha384" => Ok(Self::HmacSha384),
            "hmac-sha512" => Ok(Self::HmacSha512),
            _ => Err(Error::invalid(
                format!("no TSIG algorithm {text:?}"),
                "write hmac-sha256, hmac-sha384 or hmac-sha512",
            )),
        }
    }
}

/// How often a batch is planned anew when somebody else changed its names meanwhile.
const ROUNDS: u32 = 4;
/// Before a batch is planned anew, and before a server is asked anew.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// Names in one message, which may have 64 KiB.
const BATCH: usize = 40;
/// Names that are tried by themselves when their batch was refused and nothing was done.
const REFUSALS: usize = 8;

/// A primary server.
pub struct Dns {
    settings: Settings,
    signer: Option<message::Signer>,
}

impl Dns {
    /// Nobody is asked yet.
    ///
    /// # Errors
    /// When the key can't be used.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let signer = settings.key.as_ref().map(message::signer).transpose()?;
        Ok(Self { settings, signer })
    }

    fn planner<'a>(&'a self, zone: &'a Zone) -> Planner<'a> {
        Planner { instance: &self.settings.instance, zone, lingers: false, balancer: dns::records }
    }

    async fn connect(&self) -> Result<Connection<'_>, Error> {
        Connection::open(&self.settings.server, self.signer.as_ref()).await
    }

    async fn read_zone(&self, domain: &Name) -> Result<Zone, Error> {
        let answer = self.connect().await?.ask(domain, message::SOA).await?;
        match answer {
            answer if answer.has_soa(domain) => Ok(Zone { id: domain.to_string(), domain: domain.clone() }),
            Answer::Records(_) | Answer::Refused | Answer::NoZone => {
                Err(Error::ZoneNotFound { zone: domain.to_string(), at: self.settings.server.clone() })
            }
            other => Err(self.denied(domain, &other)),
        }
    }

    /// What the primary has at these names, without what it answers for wildcards.
    async fn read(&self, zone: &Zone, names: &[Name]) -> Result<BTreeMap<Name, Found>, Error> {
        let mut retries = BACKOFF.retries();
        loop {
            match self.read_once(zone, names).await {
                Err(error) if is_worth_another_try(&error, &retries) => sleep(retries.next_delay()).await,
                done => return done,
            }
        }
    }

    async fn read_once(&self, zone: &Zone, names: &[Name]) -> Result<BTreeMap<Name, Found>, Error> {
        if let Some(outside) = names.iter().find(|name| !name.is_in(&zone.domain)) {
            return Err(Error::invalid(
                format!("{outside} is not in the zone {}", zone.domain),
                "write it in the zone of its domain",
            ));
        }
        let mut connection = self.connect().await?;
        let mut all = BTreeMap::new();
        for name in names {
            let mut found = connection.found(name).await?;
            // An answer may stem from a wildcard. Only names that are really there are in use, in the words of updates.
            if !found.records.is_empty() {
                match connection.exchange(message::in_use(zone, name)?).await? {
                    Answer::Done => {}
                    Answer::NotSo => found.records.clear(),
                    other => return Err(self.denied(&zone.domain, &other)),
                }
            }
            all.insert(name.clone(), found);
        }
        Ok(all)
    }

    async fn write(&self, zone: &Zone, changes: &[Change]) -> Result<Vec<Result<Progress, Error>>, Error> {
        let names: Vec<Name> = changes.iter().map(|change| change.name.clone()).collect();
        let mut round = 0;
        loop {
            round += 1;
            let found = self.read(zone, &names).await?;
            let plan = self.planner(zone).plan(changes, found.clone());
            let mut writes: BTreeMap<&Name, (&Found, &Found)> = BTreeMap::new();
            for step in &plan.steps {
                if let Verdict::Write { before, after } = &step.verdict {
                    writes.entry(&step.name).and_modify(|write| write.1 = after).or_insert((before, after));
                }
            }
            let writes: Vec<_> = writes.into_iter().collect();
            // If others write too, one name that keeps changing must not hold up the rest.
            let batch = if round == 1 { BATCH } else { 1 };
            let (mut overtaken, mut done) = (false, false);
            let mut refused: BTreeMap<Name, Error> = BTreeMap::new();
            let mut connection = self.connect().await?;
            let mut batches: VecDeque<_> = writes.chunks(batch).collect();
            while let Some(batch) = batches.pop_front() {
                // Not tried again as it is: it may have been done although no answer came.
                match connection.exchange(message::update(zone, batch)?).await? {
                    Answer::Done => done = true,
                    Answer::NotSo => overtaken = true,
                    // A policy for single names refuses all that comes with one of them.
                    Answer::Refused if batch.len() > 1 => {
                        let (first, second) = batch.split_at(batch.len() / 2);
                        batches.push_front(second);
                        batches.push_front(first);
                    }
                    // Who refuses one name after the other refuses all of them.
                    Answer::Refused if done || refused.len() < REFUSALS => {
                        let denied = self.denied(batch[0].0, &Answer::Refused);
                        refused.insert(batch[0].0.clone(), denied);
                    }
                    other => return Err(self.denied(&zone.domain, &other)),
                }
            }
            if overtaken {
                if round < ROUNDS {
                    sleep(BACKOFF.delay(round)).await;
                    continue;
                }
                return Err(Error::unavailable(
                    &self.settings.server,
                    "others change the same names all the time",
                ));
            }
            let waits_for = self.lagging(&names).await;
            let outcome = |step: dns::Step| match (step.verdict, waits_for.get(&step.name)) {
                (Verdict::Refuse(error), _) => Err(error),
                (Verdict::Write { .. }, _) if refused.contains_key(&step.name) => {
                    Err(refused[&step.name].clone())
                }
                (_, None) => Ok(Progress::Settled),
                (_, Some(waits_for)) => Ok(Progress::Pending { waits_for: waits_for.clone() }),
            };
            return Ok(plan.steps.into_iter().map(outcome).collect());
        }
    }

    /// The names that another server does not answer as the primary does, and what is to be said of it.
    async fn lagging(&self, names: &[Name]) -> BTreeMap<Name, String> {
        let mut lagging = BTreeMap::new();
        if self.settings.answered_by.is_empty() {
            return lagging;
        }
        let primary = match answers(&self.settings.server, self.signer.as_ref(), names).await {
            Ok(primary) => primary,
            Err(error) => return names.iter().map(|name| (name.clone(), error.to_string())).collect(),
        };
        for server in &self.settings.answered_by {
            let theirs = answers(server, None, names).await;
            for (i, name) in names.iter().enumerate() {
                let waits_for = match &theirs {
                    Ok(theirs) if theirs[i] == primary[i] => continue,
                    Ok(theirs) => format!("{server}, which still answers {}", theirs[i]),
                    Err(error) => causeway_base::report::chain(error),
                };
                lagging.insert(name.clone(), waits_for);
            }
        }
        lagging
    }

    fn denied(&self, domain: &Name, answer: &Answer) -> Error {
        answer.error(&self.settings.server, domain, self.settings.key.as_ref().map(|key| &key.name))
    }
}

/// What a server answers for these names, wildcards or not.
async fn answers(
    server: &str,
    signer: Option<&message::Signer>,
    names: &[Name],
) -> Result<Vec<Found>, Error> {
    let mut connection = Connection::open(server, signer).await?;
    let mut all = Vec::new();
    for name in names {
        all.push(connection.found(name).await?);
    }
    Ok(all)
}

/// A server that is not available for a moment is asked again at once.
fn is_worth_another_try(error: &Error, retries: &Retries) -> bool {
    matches!(error, Error::Unavailable { .. }) && retries.failures() < 2
}

impl DnsProvider for Dns {
    fn zone<'a>(&'a self, id_or_domain: &'a str) -> BoxFuture<'a, Result<Zone, Error>> {
        async move {
            let domain = Name::parse(id_or_domain)?;
            let mut retries = BACKOFF.retries();
            loop {
                match self.read_zone(&domain).await {
                    Err(error) if is_worth_another_try(&error, &retries) => sleep(retries.next_delay()).await,
                    done => return done,
                }
            }
        }
        .boxed()
    }

    fn observe<'a>(
        &'a self,
        zone: &'a Zone,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<BTreeMap<Name, Found>, Error>> {
        self.read(zone, names).boxed()
    }

    fn apply<'a>(
        &'a self,
        zone: &'a Zone,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Vec<Result<Progress, Error>>> {
        async move {
            match self.write(zone, changes).await {
                Ok(outcomes) => outcomes,
                Err(error) => dns::for_each(changes, &error),
            }
        }
        .boxed()
    }

    fn plan<'a>(&'a self, zone: &'a Zone, changes: &'a [Change]) -> BoxFuture<'a, Result<Plan, Error>> {
        async move {
            let names: Vec<Name> = changes.iter().map(|change| change.name.clone()).collect();
            Ok(self.planner(zone).plan(changes, self.read(zone, &names).await?))
        }
        .boxed()
    }
}
