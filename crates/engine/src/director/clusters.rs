//! The clusters of the plan, those that drain, and the active checks of their endpoints.

use std::collections::HashMap;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

use causeway_base::lock;
use causeway_ir::{Change, HealthCheck, HttpVersion, Name, Plan, Transport};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::drains::{Drains, Leaving};
use crate::cluster::{Cluster, Clusters, SettingsPool};
use crate::health;
use crate::status::{MissingCertificate, Part};
use crate::tls::Certificates;
use crate::worker::Shared;

type Named = HashMap<Name, Arc<Cluster>>;

pub(super) struct ClusterSet {
    clusters: Clusters,
    settings: SettingsPool,
    checks: HashMap<Name, (HealthCheck, AbortHandle)>,
    turns: health::Turns,
    shared: Arc<Shared>,
    /// Those that plans name.
    certificates: Arc<Certificates>,
}

impl ClusterSet {
    pub(super) fn new(shared: Arc<Shared>, clusters: Clusters) -> Self {
        Self {
            shared,
            certificates: Arc::default(),
            clusters,
            settings: SettingsPool::default(),
            checks: HashMap::new(),
            turns: health::Turns::default(),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Named> {
        lock::read(&self.clusters)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Named> {
        lock::write(&self.clusters)
    }

    /// Makes and changes clusters; one that is gone has its time to drain.
    pub(super) fn apply(
        &mut self,
        changes: &[Change<'_, causeway_ir::Cluster>],
        drains: &mut Drains,
        deadline: Instant,
    ) {
        for change in changes {
            match (change.old, change.new) {
                (_, Some(planned)) => {
                    drains.cancel(&Leaving::Cluster(planned.name.clone()));
                    let before = change.old.map(|old| (&old.transport, old.http_version));
                    let cluster = self.make(planned, before);
                    self.keep_check(planned, cluster);
                }
                (Some(planned), None) => {
                    drains.begin(Leaving::Cluster(planned.name.clone()), deadline);
                    self.stop_check(&planned.name);
                    if let Some(cluster) = self.read().get(&planned.name) {
                        forget_health(cluster);
                    }
                }
                (None, None) => {}
            }
        }
    }

    /// Makes or changes a cluster; `before` is how its endpoints were reached.
    fn make(
        &mut self,
        planned: &causeway_ir::Cluster,
        before: Option<(&Transport, HttpVersion)>,
    ) -> Arc<Cluster> {
        let known = self.read().get(&planned.name).cloned();
        let cluster = if let Some(cluster) = known {
            cluster.update(planned, &mut self.settings);
            cluster
        } else {
            let cluster = Arc::new(Cluster::new(planned, &mut self.settings));
            self.write().insert(planned.name.clone(), Arc::clone(&cluster));
            cluster
        };
        // In between connections are refused: those that must have TLS have none yet.
        if before != Some((&planned.transport, planned.http_version)) {
            self.secure(planned, &cluster);
        }
        cluster
    }

    /// Gives a cluster its TLS, if it has some and all that it needs is there.
    fn secure(&self, planned: &causeway_ir::Cluster, cluster: &Cluster) {
        let tls = match &planned.transport {
            Transport::Tls(tls) => self.shared.tls.upstream(tls, planned.http_version, &self.certificates),
            Transport::Direct | Transport::Link(_) => None,
        };
        if tls.is_some() || cluster.tls().is_some() {
            cluster.secure(tls);
        }
    }

    /// Takes other certificates and authorities into use, for the connections to come.
    pub(super) fn renew(&mut self, certificates: &Arc<Certificates>, plan: &Plan) {
        let before = std::mem::replace(&mut self.certificates, Arc::clone(certificates));
        for planned in &plan.clusters {
            let Transport::Tls(tls) = &planned.transport else { continue };
            let same_key = tls
                .certificate
                .as_ref()
                .is_none_or(|name| same(before.get(&name.0), certificates.get(&name.0)));
            let same_authorities = tls
                .authorities
                .as_ref()
                .is_none_or(|name| same(before.authorities(&name.0), certificates.authorities(&name.0)));
            let cluster = self.read().get(&planned.name).cloned();
            if let Some(cluster) = cluster.filter(|_| !(same_key && same_authorities)) {
                self.secure(planned, &cluster);
            }
        }
    }

    /// What clusters of a plan name and nobody gave.
    pub(super) fn missing_certificates(&self, plan: &Plan) -> Vec<MissingCertificate> {
        let mut missing = Vec::new();
        for planned in &plan.clusters {
            let Transport::Tls(tls) = &planned.transport else { continue };
            let of = || Part::Cluster(planned.name.clone());
            let key = tls.certificate.iter().filter(|name| self.certificates.get(&name.0).is_none());
            missing.extend(key.map(|name| MissingCertificate::key(of(), name)));
            let trusted = tls.authorities.iter();
            let trusted = trusted.filter(|name| self.certificates.authorities(&name.0).is_none());
            missing.extend(trusted.map(|name| MissingCertificate::authorities(of(), name)));
        }
        missing
    }

    /// Whether a cluster that is no longer in the plan still has connections.
    pub(super) fn is_used(&self, name: &str) -> bool {
        self.read().get(name).is_some_and(|cluster| cluster.metrics.active.get() > 0)
    }

    /// Forgets a cluster that has drained.
    pub(super) fn remove(&self, name: &str) {
        self.write().remove(name);
    }

    /// Starts, restarts or ends the active check of a cluster so that it has the one its plan asks for.
    fn keep_check(&mut self, planned: &causeway_ir::Cluster, cluster: Arc<Cluster>) {
        let running = self.checks.get(&planned.name).map(|(check, _)| check);
        if running == planned.health_check.as_ref() {
            return;
        }
        self.stop_check(&planned.name);
        match &planned.health_check {
            Some(check) => {
                let task =
                    tokio::spawn(health::run(cluster, check.clone(), self.turns.clone())).abort_handle();
                self.checks.insert(planned.name.clone(), (check.clone(), task));
            }
            None => forget_health(&cluster),
        }
    }

    fn stop_check(&mut self, cluster: &str) {
        if let Some((_, task)) = self.checks.remove(cluster) {
            task.abort();
        }
    }

    pub(super) fn stop_checks(&mut self) {
        for (_, (_, task)) in self.checks.drain() {
            task.abort();
        }
    }
}

pub(super) fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// Without a check nothing would ever find an endpoint healthy again; also one of a cluster that may come back.
fn forget_health(cluster: &Cluster) {
    cluster.state().members.iter().for_each(|member| member.endpoint.set_healthy(true));
}
