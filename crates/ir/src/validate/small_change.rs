//! Checks a plan by what differs from one that is known to be fine. To compare and to look for a few names costs far less
//! than to gather all names anew. It only ever says that a plan is fine; to say what is not is left to the whole check.

use super::{Findings, cluster, listener::unfit_for_datagrams};
use crate::diff::{Change, changes};
use crate::{Action, Cluster, Listener, Name, Plan, Protocol, TlsRoute};

/// Changed clusters, routes or names up to which looking for each of them in the whole plan is cheap.
const FEW: usize = 16;

/// Whether `new` is surely fine, given that `old` is.
pub(super) fn is_fine(old: &Plan, new: &Plan) -> bool {
    old.links == new.links && clusters_are_fine(old, new) && listeners_are_fine(old, new)
}

fn clusters_are_fine(old: &Plan, new: &Plan) -> bool {
    let differing = changes(&old.clusters, &new.clusters);
    if differing.len() > FEW {
        return false;
    }
    let datagrams = new.listeners.iter().any(|listener| listener.protocol.is_udp());
    let sound = |cluster: &Cluster| {
        let mut found = Findings::default();
        cluster::check(&mut found, &String::new, cluster, |name| {
            new.links.iter().any(|link| link.name == *name)
        });
        found.0.is_empty()
            && new.clusters.iter().filter(|other| other.name == cluster.name).count() == 1
            && !(datagrams && unfit_for_datagrams(cluster).is_some())
    };
    let removed: Vec<&Name> = differing
        .iter()
        .filter(|change| change.new.is_none())
        .filter_map(|c| c.old)
        .map(|c| &c.name)
        .collect();
    differing.iter().filter_map(|change| change.new).all(sound)
        && (removed.is_empty() || !new.listeners.iter().any(|listener| leads_to(listener, &removed)))
}

/// Whether a listener has a target among these, or may have one somewhere deeper.
fn leads_to(listener: &Listener, clusters: &[&Name]) -> bool {
    matches!(listener.protocol, Protocol::Http(_))
        || listener.actions().any(|(_, action)| {
            matches!(action, Action::Terminate(_))
                || action.targets().iter().any(|target| clusters.contains(&&target.cluster))
        })
}

fn listeners_are_fine(old: &Plan, new: &Plan) -> bool {
    changes(&old.listeners, &new.listeners).into_iter().all(|change| match change {
        Change { old: Some(old), new: Some(new_listener) } => {
            old.same_but_routes(new_listener) && routes_are_fine(old, new_listener, &new.clusters)
        }
        _ => false,
    })
}

/// Only routes by server name; the others are few and quickly checked as a whole.
fn routes_are_fine(old: &Listener, new: &Listener, clusters: &[Cluster]) -> bool {
    let (Protocol::Tls(before), Protocol::Tls(after)) = (&old.protocol, &new.protocol) else { return false };
    let differing = changes(&before.routes, &after.routes);
    if differing.len() > FEW {
        return false;
    }
    let came: Vec<&TlsRoute> = differing.iter().filter_map(|change| change.new).collect();
    let names: Vec<_> = came.iter().flat_map(|route| &route.server_names).collect();
    let known = |action: &Action| {
        action.targets().iter().all(|target| clusters.iter().any(|cluster| cluster.name == target.cluster))
    };
    let unique_names = || {
        let all = after.routes.iter().flat_map(|route| &route.server_names);
        let mut uses = vec![0_u32; names.len()];
        for name in all {
            for (known, uses) in names.iter().zip(&mut uses) {
                *uses += u32::from(*known == name);
            }
        }
        uses.iter().all(|uses| *uses == 1)
    };
    names.len() <= FEW
        && came.iter().all(|route| {
            !route.server_names.is_empty()
                && !matches!(route.action, Action::Terminate(_))
                && known(&route.action)
                && after.routes.iter().filter(|other| other.name == route.name).count() == 1
        })
        && unique_names()
}
