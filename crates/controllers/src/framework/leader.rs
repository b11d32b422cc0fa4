//! Leader election by a Lease: at most one replica's controllers run. A candidate trusts only its own clock: it takes
//! over when it has watched the lease stay unchanged for a whole lease duration. A leader that cannot renew stops
//! before anyone may take over.

use std::time::Duration;

use causeway_base::backoff::spread;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// How the election runs; the defaults are those of Kubernetes' own components.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// This replica, different from every other.
    pub identity: String,
    /// How long a silent leader keeps its role.
    pub lease: Duration,
    /// How long a leader tries to renew before it stops; shorter than `lease`, so that it stops first.
    pub renew_deadline: Duration,
    /// How long to wait between two tries.
    pub retry: Duration,
}

impl Config {
    /// The usual timing for this lease and replica.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// How long controllers may take to stop after the lease was lost, before another replica may start.
    pub fn grace(&self) -> Duration {
        self.lease.saturating_sub(self.renew_deadline)
    }
}

/// Why an election step did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lease could not be read.
    #[error("failed to read lease {namespace}/{name}")]
    Read {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// The lease could not be written.
    #[error("failed to write lease {namespace}/{name}")]
    Write {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
}

/// How a term as leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The replica was told to stop and still holds the lease.
    Shutdown,
    /// The lease is lost or could not be renewed in time.
    Lost,
}

/// What a look at the lease leads to.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Write this, and lead if that works.
    Write(Box<Lease>),
    /// Somebody else leads.
    Follow { holder: String },
}

/// A candidate, and while it leads, the leader.
pub struct Elector {
    api: Api<Lease>,
    config: Config,
    /// The lease's version as last seen, and when this replica first saw it.
    observed: Option<(String, Instant)>,
    /// Since when this replica leads at the latest: before the request that last said so was sent, which is when the
    /// lease's time can have begun.
    renewed: Instant,
}

impl Elector {
    /// A candidate that has not looked at the lease.
    pub fn new(client: Client, config: Config) -> Self {
        Self {
            api: Api::namespaced(client, &config.namespace),
            config,
            observed: None,
            renewed: Instant::now(),
        }
    }

    /// Waits until this replica leads; false if it was told to stop before. Calls `follows` with each other leader seen.
    pub async fn acquire(&mut self, shutdown: &CancellationToken, mut follows: impl FnMut(&str)) -> bool {
        let mut known = String::new();
        loop {
            // A request that hangs must not outlive the try.
            let deadline = Instant::now() + self.config.renew_deadline;
            let tried = tokio::select! {
                () = shutdown.cancelled() => return false,
                tried = timeout_at(deadline, self.try_lead()) => tried,
            };
            match tried {
                Ok(Ok(None)) => {
                    tracing::info!(lease = self.config.name, identity = self.config.identity, "leads");
                    return true;
                }
                Ok(Ok(Some(holder))) => {
                    if holder != known {
                        tracing::info!(lease = self.config.name, leader = holder, "stands by");
                        follows(&holder);
                        known = holder;
                    }
                }
                Ok(Err(error)) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(lease = self.config.name, error, "election try failed");
                }
                Err(_) => tracing::warn!(lease = self.config.name, "election try timed out"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = sleep(spread(self.config.retry)) => {}
            }
        }
    }

    /// Renews the lease until told to stop, or until it is lost.
    pub async fn hold(&mut self, shutdown: &CancellationToken) -> End {
        loop {
            let deadline = self.renewed + self.config.renew_deadline;
            tokio::select! {
                () = shutdown.cancelled() => return End::Shutdown,
                () = sleep_until(deadline.min(Instant::now() + spread(self.config.retry))) => {}
            }
            match timeout_at(deadline, self.try_lead()).await {
                Ok(Ok(Some(holder))) => {
                    tracing::warn!(lease = self.config.name, leader = holder, "lost the lease");
                    return End::Lost;
                }
                Ok(Err(error)) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(lease = self.config.name, error, "failed to renew the lease");
                }
                Ok(Ok(None)) | Err(_) => {}
            }
            if Instant::now() >= self.renewed + self.config.renew_deadline {
                tracing::warn!(lease = self.config.name, "could not renew the lease in time");
                return End::Lost;
            }
        }
    }

    /// Gives the lease up so that the next replica need not wait for it to run out.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached; the lease runs out by itself then.
    pub async fn release(&mut self) -> Result<(), Error> {
        let Some(mut lease) = self.read().await? else {
            return Ok(());
        };
        let Some(spec) = lease.spec.as_mut() else {
            return Ok(());
        };
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(());
        }
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let name = self.config.name.clone();
        self.api
            .replace(&name, &PostParams::default(), &lease)
            .await
            .map(drop)
            .map_err(|source| self.write_error(source))
    }

    /// One look and, if it may be done, one write. None: this replica leads. Some: the holder leads.
    async fn try_lead(&mut self) -> Result<Option<String>, Error> {
        let asked = Instant::now();
        let found = self.read().await?;
        let step = self.step(found.as_ref(), Instant::now(), Timestamp::now());
        let lease = match step {
            Step::Follow { holder } => return Ok(Some(holder)),
            Step::Write(lease) => lease,
        };
        let params = PostParams::default();
        let written = match found {
            // The version in the body makes this fail if anyone wrote in between.
            Some(_) => self.api.replace(&self.config.name, &params, &lease).await,
            None => self.api.create(&params, &lease).await,
        };
        // A write that lost a race is an error like any other: the next look shows who leads.
        let written = written.map_err(|source| self.write_error(source))?;
        self.observe(&written, Instant::now());
        self.renewed = asked;
        Ok(None)
    }

    fn step(&mut self, found: Option<&Lease>, now: Instant, wall: Timestamp) -> Step {
        let stamp = MicroTime(wall);
        let Some(lease) = found else {
            let spec = LeaseSpec {
                holder_identity: Some(self.config.identity.clone()),
                lease_duration_seconds: Some(self.seconds()),
                acquire_time: Some(stamp.clone()),
                renew_time: Some(stamp),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            };
            let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
            return Step::Write(Box::new(Lease { metadata, spec: Some(spec) }));
        };
        self.observe(lease, now);
        let unchanged_since = self.observed.as_ref().map_or(now, |(_, since)| *since);
        let holder = holder_of(lease).unwrap_or_default();
        let spec = lease.spec.clone().unwrap_or_default();
        // The duration that counts is the one the holder promised; a replica with another setting must honour it.
        let promised = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let promised = promised.map_or(self.config.lease, Duration::from_secs);
        let is_mine = holder == self.config.identity;
        if !is_mine && !holder.is_empty() && now < unchanged_since + promised {
            return Step::Follow { holder: holder.to_owned() };
        }
        let mut next = lease.clone();
        next.spec = Some(LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(self.seconds()),
            acquire_time: if is_mine { spec.acquire_time.clone() } else { Some(stamp.clone()) },
            renew_time: Some(stamp),
            lease_transitions: Some(spec.lease_transitions.unwrap_or(0) + i32::from(!is_mine)),
            ..spec
        });
        Step::Write(Box::new(next))
    }

    /// Remembers when this version of the lease was first seen, by the local clock.
    fn observe(&mut self, lease: &Lease, now: Instant) {
        let version = lease.resource_version().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|(seen, _)| *seen != version) {
            self.observed = Some((version, now));
        }
    }

    async fn read(&self) -> Result<Option<Lease>, Error> {
        self.api.get_opt(&self.config.name).await.map_err(|source| Error::Read {
            namespace: self.config.namespace.clone(),
            name: self.config.name.clone(),
            source,
        })
    }

    fn write_error(&self, source: kube::Error) -> Error {
        Error::Write { namespace: self.config.namespace.clone(), name: self.config.name.clone(), source }
    }

    fn seconds(&self) -> i32 {
        // Rounded up: a follower that waits longer is safe, one that waits less is not.
        i32::try_from(self.config.lease.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
    }
}

fn holder_of(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

#[cfg(test)]
mod tests;
