//! Before an installation over one that is there: whether it would reach less far, or further, than the one before.

use std::collections::BTreeSet;

use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use super::Line;
use crate::parts::installation::{self, Reach, resource_of};

const SECTION: &str = "installations";
/// How many objects are named.
const NAMED: usize = 5;

/// What it means that the installation in `namespace` is to reach this far from now on.
pub(super) async fn lines(client: &Client, namespace: &str, wanted: &Reach) -> Vec<Line> {
    // Who may not look at it may not change it either, and the check of his rights says so.
    let Ok(Some(now)) = installation::reach(client, namespace).await else { return Vec::new() };
    let dropped = dropped(&now, wanted);
    let mut waiting = Vec::new();
    for place in &dropped {
        waiting.extend(waiting_in(client, place).await);
    }
    judged(namespace, &now, wanted, &waiting).into_iter().collect()
}

/// Namespaces that the one serves and the other does not.
fn dropped(now: &Reach, wanted: &Reach) -> Vec<String> {
    match (now, wanted) {
        (Reach::Namespaces(now), Reach::Namespaces(wanted)) => now.difference(wanted).cloned().collect(),
        _ => Vec::new(),
    }
}

fn judged(namespace: &str, now: &Reach, wanted: &Reach, waiting: &[String]) -> Option<Line> {
    let listed = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    match (now, wanted) {
        (Reach::Cluster, Reach::Namespaces(wanted)) => {
            let what = format!(
                "what is in namespace {namespace} is for the whole cluster: for {} alone it would leave objects in all other namespaces to nobody",
                listed(wanted)
            );
            let cure = format!(
                "take it out first, `causeway uninstall --namespace {namespace}`; or leave --namespaces out"
            );
            Some(Line::fail(SECTION, what, cure))
        }
        (Reach::Namespaces(now), Reach::Cluster) => {
            let what = format!(
                "what is in namespace {namespace} is for {} alone so far: from now on it has rights in the whole cluster, and so has whoever may make pods in {namespace}",
                listed(now)
            );
            let cure = format!(
                "if that is not meant, say --namespaces {} again",
                now.iter().cloned().collect::<Vec<_>>().join(",")
            );
            Some(Line::warn(SECTION, what, cure))
        }
        _ => {
            let dropped = dropped(now, wanted).join(", ");
            if dropped.is_empty() {
                None
            } else if waiting.is_empty() {
                let what = format!(
                    "{dropped} would be served no more: what runs there goes on, and nothing there is followed"
                );
                let cure = "if that is not meant, name all namespaces: what an earlier installation was for is not remembered";
                Some(Line::warn(SECTION, what, cure))
            } else {
                let named = waiting.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
                let more = if waiting.len() > NAMED { ", …" } else { "" };
                let what = format!(
                    "{dropped} would be served no more, and there nobody would let go of what is deleted: {named}{more}"
                );
                Some(Line::fail(SECTION, what, "delete these first, or name the namespace again"))
            }
        }
    }
}

/// Objects of a namespace that go only when an operator lets go of them; none where one may not look.
async fn waiting_in(client: &Client, namespace: &str) -> Vec<String> {
    let mut waiting = Vec::new();
    for crd in causeway_api::crds() {
        let resource = resource_of(&crd);
        if crd.spec.scope != "Namespaced" {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let Ok(list) = api.list_metadata(&ListParams::default()).await else { continue };
        let is_held = |held: &String| held.starts_with("causeway.dev/");
        let held = list.items.iter().filter(|one| one.finalizers().iter().any(is_held));
        waiting.extend(held.map(|one| format!("{} {namespace}/{}", resource.kind, one.name_any())));
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    #[test]
    fn an_installation_that_would_leave_objects_to_nobody_fails() {
        let of = |namespaces: &[&str]| {
            Reach::of(&namespaces.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        for (now, wanted, waiting, level, says) in [
            (of(&[]), of(&[]), &[][..], None, ""),
            (of(&["a"]), of(&["a", "b"]), &[], None, ""),
            (of(&[]), of(&["a"]), &[], Some(Level::Fail), "causeway uninstall --namespace system"),
            (of(&["a", "b"]), of(&[]), &[], Some(Level::Warn), "say --namespaces a,b again"),
            (of(&["a", "b"]), of(&["b", "c"]), &[], Some(Level::Warn), "a would be served no more"),
            (of(&["a", "b"]), of(&["b"]), &["ProxyServer a/px"], Some(Level::Fail), "ProxyServer a/px"),
        ] {
            let waiting: Vec<String> = waiting.iter().map(|one| (*one).to_owned()).collect();
            let line = judged("system", &now, &wanted, &waiting);
            assert_eq!(line.as_ref().map(|line| line.level), level, "{now:?} {wanted:?}");
            assert!(format!("{line:?}").contains(says), "{line:?}");
        }
    }
}
