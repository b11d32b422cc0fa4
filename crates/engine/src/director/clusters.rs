//! The clusters of the plan, those that drain, and the active checks of their endpoints.

use std::collections::HashMap;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

use causeway_base::lock;
use causeway_ir::{Change, HealthCheck, Name};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::drains::{Drains, Leaving};
use crate::cluster::{Cluster, Clusters, SettingsPool};
use crate::health;

type Named = HashMap<Name, Arc<Cluster>>;

pub(super) struct ClusterSet {
    clusters: Clusters,
    settings: SettingsPool,
    checks: HashMap<Name, (HealthCheck, AbortHandle)>,
    turns: health::Turns,
}

impl ClusterSet {
    pub(super) fn new(clusters: Clusters) -> Self {
        Self {
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
                    let cluster = self.make(planned);
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

    fn make(&mut self, planned: &causeway_ir::Cluster) -> Arc<Cluster> {
        let known = self.read().get(&planned.name).cloned();
        if let Some(cluster) = known {
            cluster.update(planned, &mut self.settings);
            return cluster;
        }
        let cluster = Arc::new(Cluster::new(planned, &mut self.settings));
        self.write().insert(planned.name.clone(), Arc::clone(&cluster));
        cluster
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

/// Without a check nothing would ever find an endpoint healthy again; also one of a cluster that may come back.
fn forget_health(cluster: &Cluster) {
    cluster.state().members.iter().for_each(|member| member.endpoint.set_healthy(true));
}
