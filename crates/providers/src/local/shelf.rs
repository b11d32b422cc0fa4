//! The zones of our own DNS server. Their records are kept by the caller, who also carries them to the server: a ConfigMap,
//! a file or memory, behind [`Shelf`].

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_base::Backoff;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::dns::{self, Change, DnsProvider, Found, Plan, Planner, Progress, Verdict, Wanted, Zone};
use crate::{Error, Name};

/// All that is kept of a zone: by name, with owners. Addresses are what the server is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// By name.
    pub names: BTreeMap<Name, Found>,
}

/// Where zones are kept.
pub trait Shelf: Send + Sync {
    /// What is kept of a zone, and a version for [`Self::save`]; nothing of it is an empty one.
    ///
    /// # Errors
    /// When there is no such zone here, or it can't be read.
    fn load<'a>(&'a self, domain: &'a Name) -> BoxFuture<'a, Result<(Stored, String), Error>>;

    /// Keeps it, if it still has that version: `false` if somebody else was faster.
    ///
    /// # Errors
    /// When it can't be written.
    fn save<'a>(
        &'a self,
        domain: &'a Name,
        stored: &'a Stored,
        version: &'a str,
    ) -> BoxFuture<'a, Result<bool, Error>>;

    /// Whether the server answers with what is kept; what it waits for if not.
    ///
    /// # Errors
    /// When it can't be known.
    fn served<'a>(&'a self, domain: &'a Name, stored: &'a Stored) -> BoxFuture<'a, Result<Progress, Error>>;
}

/// Our own DNS server as a provider. It answers addresses, so it takes nothing but [`Wanted::Addresses`].
pub struct Dns<S> {
    instance: String,
    shelf: S,
}

impl<S: Shelf> Dns<S> {
    /// For the controller of this name.
    pub fn new(instance: String, shelf: S) -> Self {
        Self { instance, shelf }
    }

    fn planner<'a>(&'a self, zone: &'a Zone) -> Planner<'a> {
        Planner { instance: &self.instance, zone, lingers: false, balancer: dns::records }
    }

    async fn write(&self, zone: &Zone, changes: &[Change]) -> Result<Vec<Result<Progress, Error>>, Error> {
        const TRIES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
        let mut retries = TRIES.retries();
        loop {
            let (mut stored, version) = self.shelf.load(&zone.domain).await?;
            let plan = self.plan_of(zone, changes, &stored);
            let mut changed = false;
            for step in &plan.steps {
                let Verdict::Write { after, .. } = &step.verdict else { continue };
                changed = true;
                if after.is_empty() {
                    stored.names.remove(&step.name);
                } else {
                    stored.names.insert(step.name.clone(), after.clone());
                }
            }
            if changed && !self.shelf.save(&zone.domain, &stored, &version).await? {
                if retries.failures() < 8 {
                    tokio::time::sleep(retries.next_delay()).await;
                    continue;
                }
                return Err(Error::unavailable("the kept zone", "others write it all the time"));
            }
            let progress = self.shelf.served(&zone.domain, &stored).await?;
            let outcome = |verdict| match verdict {
                Verdict::Refuse(error) => Err(error),
                Verdict::Keep | Verdict::Write { .. } => Ok(progress.clone()),
            };
            return Ok(plan.steps.into_iter().map(|step| outcome(step.verdict)).collect());
        }
    }

    fn plan_of(&self, zone: &Zone, changes: &[Change], stored: &Stored) -> Plan {
        let mut plan = self.planner(zone).plan(changes, stored.names.clone());
        for (change, step) in changes.iter().zip(&mut plan.steps) {
            if !matches!(change.want, Wanted::Addresses { .. } | Wanted::Nothing) {
                step.verdict = Verdict::Refuse(Error::invalid(
                    format!(
                        "{} can't be served by the local DNS server, which has addresses only",
                        change.name
                    ),
                    "use a gateway with addresses, or certificates of the local authority, which need no proof",
                ));
            }
        }
        plan
    }
}

impl<S: Shelf> DnsProvider for Dns<S> {
    fn zone<'a>(&'a self, id_or_domain: &'a str) -> BoxFuture<'a, Result<Zone, Error>> {
        async move {
            let domain = Name::parse(id_or_domain)?;
            self.shelf.load(&domain).await?;
            Ok(Zone { id: domain.to_string(), domain })
        }
        .boxed()
    }

    fn observe<'a>(
        &'a self,
        zone: &'a Zone,
        names: &'a [Name],
    ) -> BoxFuture<'a, Result<BTreeMap<Name, Found>, Error>> {
        async move {
            let (stored, _) = self.shelf.load(&zone.domain).await?;
            let found = |name: &Name| stored.names.get(name).cloned().unwrap_or_default();
            Ok(names.iter().map(|name| (name.clone(), found(name))).collect())
        }
        .boxed()
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
            let (stored, _) = self.shelf.load(&zone.domain).await?;
            Ok(self.plan_of(zone, changes, &stored))
        }
        .boxed()
    }
}
