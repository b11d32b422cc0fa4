//! What is served at one moment: every resource with a version by its content. A new plan makes a new snapshot that
//! shares all that did not change with the one before.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use causeway_ir::{Cluster, Listener, Plan};
use envoy_types::pb::envoy::config::listener::v3 as envoy;
use envoy_types::pb::google::protobuf::Any;
use envoy_types::util::pack_any;

use crate::resources::{self, Clusters};

/// The types of resources, in the order in which a change is made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Endpoints,
    Listener,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Endpoints, Self::Listener];

    pub fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
        }
    }

    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// As a person says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
            Self::Listener => "listener",
        }
    }
}

/// One resource, ready to be sent.
#[derive(Debug)]
pub struct Resource {
    pub name: String,
    pub version: String,
    pub body: Any,
}

impl Resource {
    fn new(name: String, body: Any) -> Arc<Self> {
        let version = version(&body.value);
        Arc::new(Self { name, version, body })
    }

    /// The map of names in a listener is written in another order each time, so the plan's names stand in for it.
    fn of_listener(listener: &Listener, built: envoy::Listener) -> Arc<Self> {
        let matcher = built.filter_chain_matcher;
        let rest = envoy::Listener { filter_chain_matcher: None, ..built };
        let names: Vec<_> = listener.routes.iter().map(|route| (&route.name, &route.server_names)).collect();
        let version = version(&(&pack_any(rest.clone()).value, names));
        let body = pack_any(envoy::Listener { filter_chain_matcher: matcher, ..rest });
        Arc::new(Self { name: listener.name.clone(), version, body })
    }
}

fn version(content: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Resources of one type by name.
pub type Set = BTreeMap<String, Arc<Resource>>;

/// Everything for one plan.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counts up; 0 is before the first plan.
    pub number: u64,
    pub plan: Option<Arc<Plan>>,
    sets: [Set; 3],
}

impl Snapshot {
    pub fn set(&self, kind: Kind) -> &Set {
        &self.sets[kind as usize]
    }

    /// The snapshot of a valid plan that follows this one.
    pub fn next(&self, plan: Arc<Plan>) -> Self {
        let empty = Plan::default();
        let before = self.plan.as_deref().unwrap_or(&empty);
        let (new, old) = (resources::clusters(&plan), resources::clusters(before));
        let [mut clusters, mut endpoints, mut listeners] = [Set::new(), Set::new(), Set::new()];
        for cluster in &plan.clusters {
            let name = resources::cluster_name(&cluster.name);
            let old = old.get(cluster.name.as_str());
            let head = old
                .filter(|old| same_head(old, cluster))
                .and_then(|_| self.set(Kind::Cluster).get(&name).cloned())
                .unwrap_or_else(|| Resource::new(name.clone(), pack_any(resources::cluster::build(cluster))));
            let members = old
                .filter(|old| old.endpoints == cluster.endpoints)
                .and_then(|_| self.set(Kind::Endpoints).get(&name).cloned())
                .unwrap_or_else(|| {
                    Resource::new(name.clone(), pack_any(resources::endpoints::build(cluster)))
                });
            clusters.insert(name.clone(), head);
            endpoints.insert(name, members);
        }
        let before_by_name: HashMap<&str, &Listener> =
            before.listeners.iter().map(|listener| (listener.name.as_str(), listener)).collect();
        for listener in &plan.listeners {
            let same = before.limits == plan.limits
                && before_by_name.get(listener.name.as_str()).is_some_and(|before| *before == listener)
                && same_targets(listener, &old, &new);
            let known = self.set(Kind::Listener).get(&listener.name).filter(|_| same).cloned();
            let resource = known.or_else(|| {
                let built = resources::listener::build(listener, &new, &plan.limits)?;
                Some(Resource::of_listener(listener, built))
            });
            listeners.extend(resource.map(|resource| (listener.name.clone(), resource)));
        }
        Self { number: self.number + 1, plan: Some(plan), sets: [clusters, endpoints, listeners] }
    }
}

/// Whether two clusters differ in nothing but endpoints.
fn same_head(a: &Cluster, b: &Cluster) -> bool {
    let Cluster {
        name,
        endpoints: _,
        policy,
        connect_timeout,
        idle_timeout,
        retries,
        ejection,
        health_check,
        slow_start,
        connection_limit,
        send_proxy_protocol,
        keepalive,
    } = a;
    *name == b.name
        && *policy == b.policy
        && *connect_timeout == b.connect_timeout
        && *idle_timeout == b.idle_timeout
        && *retries == b.retries
        && *ejection == b.ejection
        && *health_check == b.health_check
        && *slow_start == b.slow_start
        && *connection_limit == b.connection_limit
        && *send_proxy_protocol == b.send_proxy_protocol
        && *keepalive == b.keepalive
}

/// Whether a listener's clusters are in everything as before that a listener shows.
fn same_targets(listener: &Listener, old: &Clusters<'_>, new: &Clusters<'_>) -> bool {
    resources::listener::targets(listener).all(|name| match (old.get(name), new.get(name)) {
        (Some(old), Some(new)) => same_head(old, new),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(endpoint: &str, name: &str) -> Arc<Plan> {
        let text = format!(
            "listeners: [{{name: l, bind: '127.0.0.1:1', sniff: tls, routes: [\
             {{name: r, serverNames: ['{name}', b.test, '*.c.test'], cluster: a}}]}}]\n\
             clusters: [{{name: a, endpoints: [{{address: '{endpoint}'}}]}}, {{name: b}}]"
        );
        Arc::new(serde_saphyr::from_str(&text).unwrap())
    }

    fn versions(snapshot: &Snapshot, kind: Kind) -> Vec<&str> {
        snapshot.set(kind).values().map(|resource| resource.version.as_str()).collect()
    }

    #[test]
    fn versions_are_by_content_and_the_same_in_every_run() {
        let first = Snapshot::default().next(plan("10.0.0.1:1", "a.test"));
        let again = Snapshot::default().next(plan("10.0.0.1:1", "a.test"));
        for kind in Kind::ALL {
            assert_eq!(versions(&first, kind), versions(&again, kind), "{kind:?}");
        }
    }

    #[test]
    fn an_endpoint_changes_one_resource_and_shares_the_rest() {
        let first = Snapshot::default().next(plan("10.0.0.1:1", "a.test"));
        let second = first.next(plan("10.0.0.2:1", "a.test"));
        for kind in Kind::ALL {
            for (name, resource) in second.set(kind) {
                let shared = Arc::ptr_eq(resource, &first.set(kind)[name]);
                assert_eq!(shared, (kind, name.as_str()) != (Kind::Endpoints, "a"), "{kind:?} {name}");
            }
        }
        assert_ne!(versions(&first, Kind::Endpoints), versions(&second, Kind::Endpoints));
        assert_eq!(second.number, 2);
    }

    #[test]
    fn a_name_changes_the_listener_alone() {
        let first = Snapshot::default().next(plan("10.0.0.1:1", "a.test"));
        let second = first.next(plan("10.0.0.1:1", "z.test"));
        assert_eq!(versions(&first, Kind::Cluster), versions(&second, Kind::Cluster));
        assert_ne!(versions(&first, Kind::Listener), versions(&second, Kind::Listener));
    }
}
