//! Checks a plan by what differs from one that is known to be fine. To compare and to look for a few names costs far less
//! than to gather all names anew. It only ever says that a plan is fine; to say what is not is left to the whole check.

use super::{Findings, check_cluster};
use crate::changed::changed;
use crate::diff::head;
use crate::plan::{Cluster, Listener, Outcome, Plan, Protocol, Route, Sniff};
use crate::server_name;

/// Changed clusters, routes or names up to which looking for each of them in the whole plan is cheap.
const FEW: usize = 16;

/// Whether `new` is surely fine, given that `old` is.
pub fn is_fine(old: &Plan, new: &Plan) -> bool {
    let same_heads = old.listeners.len() == new.listeners.len()
        && old.listeners.iter().zip(&new.listeners).all(|(a, b)| a.name == b.name && head(a) == head(b));
    same_heads
        && old.limits == new.limits
        && clusters_are_fine(old, new)
        && old.listeners.iter().zip(&new.listeners).all(|(a, b)| routes_are_fine(a, b, &new.clusters))
}

fn clusters_are_fine(old: &Plan, new: &Plan) -> bool {
    let (gone, came) = changed(&old.clusters, &new.clusters);
    if gone.len() > FEW || came.len() > FEW {
        return false;
    }
    let datagrams = new.listeners.iter().any(|l| l.protocol == Protocol::Udp);
    let sound = came.iter().all(|cluster| {
        let mut found = Findings::default();
        check_cluster(&mut found, &String::new, cluster);
        found.0.is_empty()
            && !cluster.name.is_empty()
            && new.clusters.iter().filter(|other| other.name == cluster.name).count() == 1
            && !(datagrams && cluster.send_proxy_protocol.is_some())
    });
    let lost = |cluster: &&Cluster| came.iter().all(|other| other.name != cluster.name);
    sound && gone.iter().filter(lost).all(|cluster| !new.listeners.iter().any(|l| uses(l, &cluster.name)))
}

fn uses(listener: &Listener, cluster: &str) -> bool {
    let outcomes = [&listener.no_server_name, &listener.unknown_server_name, &listener.plaintext];
    listener.routes.iter().any(|route| route.cluster == cluster)
        || outcomes.into_iter().any(|outcome| matches!(outcome, Outcome::Cluster(name) if name == cluster))
}

fn routes_are_fine(old: &Listener, new: &Listener, clusters: &[Cluster]) -> bool {
    let (gone, came) = changed(&old.routes, &new.routes);
    if gone.is_empty() && came.is_empty() {
        return true;
    }
    let names: usize = came.iter().map(|route| route.server_names.len()).sum();
    // Listeners that do not sniff have one route each: whole checks of them are cheap, but have other rules.
    if new.sniff != Sniff::Tls || came.len() > FEW || names > FEW {
        return false;
    }
    came.iter().all(|route| {
        !route.name.is_empty()
            && route.connection_limit != Some(0)
            && !route.server_names.is_empty()
            && new.routes.iter().filter(|other| other.name == route.name).count() == 1
            && clusters.iter().any(|cluster| cluster.name == route.cluster)
            && route.server_names.iter().all(|name| is_fine_name(name, &new.routes))
    })
}

fn is_fine_name(name: &str, routes: &[Route]) -> bool {
    let all = routes.iter().flat_map(|route| &route.server_names);
    server_name::valid(name).is_ok() && all.filter(|other| server_name::is_same(name, other)).count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Endpoint;

    fn plan() -> Plan {
        let mut plan: Plan = serde_saphyr::from_str(
            "listeners:\n- {name: a, bind: '127.0.0.1:1', sniff: tls, plaintext: {cluster: c7}}\n\
             - {name: u, bind: '127.0.0.1:1', protocol: UDP, routes: [{name: all, cluster: c8}]}",
        )
        .unwrap();
        for i in 0..50 {
            let cluster = format!("c{i}");
            plan.clusters.push(Cluster::new(cluster.clone(), vec![Endpoint::new("127.0.0.1:9")]));
            plan.listeners[0].routes.push(Route {
                name: format!("r{i}"),
                server_names: vec![format!("n{i}.test")],
                cluster,
                connection_limit: None,
            });
        }
        plan
    }

    /// The edit of a good plan is found fine without the whole check, or it is not; the answer is always the same.
    fn after(edit: impl Fn(&mut Plan)) -> bool {
        let (old, mut new) = (plan(), plan());
        assert_eq!(old.validate(), []);
        edit(&mut new);
        assert_eq!(new.validate_after(&old), new.validate());
        is_fine(&old, &new)
    }

    #[test]
    fn a_small_change_is_checked_by_itself() {
        assert!(after(|_| {}));
        assert!(after(|plan| plan.listeners[0].routes[5].server_names.push("x.test".into())));
        assert!(after(|plan| plan.listeners[0].routes[5].server_names[0] = "*.Other.test.".into()));
        assert!(after(|plan| drop(plan.listeners[0].routes.remove(5))));
        assert!(after(|plan| plan.listeners[0].routes[5].cluster = "c6".into()));
        assert!(after(|plan| plan.clusters[5].endpoints.push(Endpoint::new("[::1]:1"))));
        assert!(after(|plan| {
            plan.listeners[0].routes.remove(49);
            plan.clusters.remove(49);
        }));
    }

    #[test]
    fn what_is_wrong_or_large_gets_the_whole_check() {
        assert!(!after(|plan| plan.listeners[0].routes[5].server_names.push("N7.test.".into())));
        assert!(!after(|plan| plan.listeners[0].routes[5].server_names.push("a..b".into())));
        assert!(!after(|plan| plan.listeners[0].routes[5].server_names.clear()));
        assert!(!after(|plan| plan.listeners[0].routes[5].name = "r7".into()));
        assert!(!after(|plan| plan.listeners[0].routes[5].cluster = "none".into()));
        assert!(!after(|plan| plan.listeners[0].routes[5].connection_limit = Some(0)));
        assert!(!after(|plan| plan.clusters[5].name = "c7".into()));
        assert!(!after(|plan| plan.clusters[5].name = String::new()));
        assert!(!after(|plan| plan.clusters[5].endpoints[0].weight = 0));
        assert!(!after(|plan| plan.clusters[8].send_proxy_protocol = Some(crate::ProxyVersion::V2)));
        // The cluster of a route, of an outcome and of datagrams.
        for cluster in [5, 7, 8] {
            assert!(!after(|plan| drop(plan.clusters.remove(cluster))), "{cluster}");
        }
        assert!(!after(|plan| {
            plan.listeners[0].routes.remove(7);
            plan.clusters.remove(7);
        }));
        assert!(!after(|plan| plan.limits.connections = Some(0)));
        assert!(!after(|plan| plan.listeners[0].bind = "nowhere".into()));
        assert!(!after(|plan| drop(plan.listeners.remove(1))));
        assert!(!after(|plan| plan.listeners[0].routes.iter_mut().for_each(|r| r.name.push('x'))));
    }
}
