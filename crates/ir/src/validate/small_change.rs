//! Checks a plan by what differs from one that is known to be fine. To compare and to look for a few names costs far less
//! than to gather all names anew. It only ever says that a plan is fine; to say what is not is left to the whole check.

use super::{Findings, cluster, http::check_route, listener::unfit_for_datagrams};
use crate::diff::{Change, changes, route_changes};
use crate::http::Http;
use crate::{Action, Cluster, ConnectionRoute, Listener, Name, Plan, Protocol, Then, Tls, TlsRoute};

/// Changed clusters, routes or names up to which looking for each of them in the whole plan is cheap.
const FEW: usize = 16;

/// Whether `new` is surely fine, given that `old` is.
pub(super) fn is_fine(old: &Plan, new: &Plan) -> bool {
    old.links == new.links
        && pages_are_fine(old, new)
        && clusters_are_fine(old, new)
        && listeners_are_fine(old, new)
}

/// They are few: what one of them says may differ, who they are may not.
fn pages_are_fine(old: &Plan, new: &Plan) -> bool {
    old.pages.iter().map(|page| &page.name).eq(new.pages.iter().map(|page| &page.name))
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

/// Whether a listener has a target among these.
fn leads_to(listener: &Listener, clusters: &[&Name]) -> bool {
    let in_action =
        |action: &Action| action.targets().iter().any(|target| clusters.contains(&&target.cluster));
    let in_http = |http: &Http| http.clusters().any(|cluster| clusters.contains(&cluster));
    listener.http().is_some_and(in_http)
        || listener.actions().any(|(_, action)| match action {
            Action::Terminate(terminate) => match &terminate.then {
                Then::Http(http) => in_http(http),
                Then::Tcp(ConnectionRoute { action, .. }) => in_action(action),
            },
            action => in_action(action),
        })
}

fn listeners_are_fine(old: &Plan, new: &Plan) -> bool {
    changes(&old.listeners, &new.listeners).into_iter().all(|change| match change {
        Change { old: Some(old), new: Some(new_listener) } => {
            old.same_but_routes(new_listener) && routes_are_fine(old, new_listener, new)
        }
        _ => false,
    })
}

/// Only routes that have lists; the others are few and quickly checked as a whole.
fn routes_are_fine(old: &Listener, new: &Listener, plan: &Plan) -> bool {
    match (&old.protocol, &new.protocol) {
        (Protocol::Tls(before), Protocol::Tls(after)) => names_are_fine(before, after, plan),
        (Protocol::Http(before), Protocol::Http(after)) => requests_are_fine(before, after, plan),
        _ => false,
    }
}

/// Routes by server name.
fn names_are_fine(before: &Tls, after: &Tls, plan: &Plan) -> bool {
    let mut differing = changes(&before.routes, &after.routes);
    if differing.len() > FEW {
        return false;
    }
    // A route inside of which requests have other ways is looked at there.
    let mut inside = true;
    differing.retain(|change| {
        match change.old.zip(change.new).and_then(|(old, new)| differs_inside(old, new)) {
            Some((before, after)) => {
                inside &= requests_are_fine(before, after, plan);
                false
            }
            None => true,
        }
    });
    let came: Vec<&TlsRoute> = differing.iter().filter_map(|change| change.new).collect();
    let names: Vec<_> = came.iter().flat_map(|route| &route.server_names).collect();
    let known =
        |action: &Action| action.targets().iter().all(|target| is_known(&plan.clusters, &target.cluster));
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
    inside
        && names.len() <= FEW
        && came.iter().all(|route| {
            !route.server_names.is_empty()
                && !matches!(route.action, Action::Terminate(_))
                && known(&route.action)
                && after.routes.iter().filter(|other| other.name == route.name).count() == 1
        })
        && unique_names()
}

/// What two routes have inside, if that is requests and all in which they may differ.
fn differs_inside<'a>(old: &'a TlsRoute, new: &'a TlsRoute) -> Option<(&'a Http, &'a Http)> {
    let (Action::Terminate(before), Action::Terminate(after)) = (&old.action, &new.action) else {
        return None;
    };
    let (Then::Http(inside_before), Then::Http(inside_after)) = (&before.then, &after.then) else {
        return None;
    };
    let same = old.name == new.name
        && old.server_names == new.server_names
        && old.connection_limit == new.connection_limit
        && before.certificates == after.certificates
        && before.client_certificates == after.client_certificates;
    same.then_some((inside_before, inside_after))
}

/// Routes of requests.
fn requests_are_fine(before: &Http, after: &Http, plan: &Plan) -> bool {
    if !before.same_but_routes(after) {
        return false;
    }
    let differing = route_changes(Some(before), Some(after));
    let came = || differing.iter().filter_map(|change| change.new);
    differing.len() <= FEW
        && came().all(|route| {
            let mut found = Findings::default();
            let is_page = |name: &str| plan.pages.iter().any(|page| *page.name == *name);
            check_route(&mut found, &String::new, route, |name| is_known(&plan.clusters, name), is_page);
            found.0.is_empty() && after.all_routes().filter(|other| other.name == route.name).count() == 1
        })
}

fn is_known(clusters: &[Cluster], name: &str) -> bool {
    clusters.iter().any(|cluster| *cluster.name == *name)
}
