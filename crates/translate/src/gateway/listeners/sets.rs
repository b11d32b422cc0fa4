//! ListenerSets of a Gateway, and whether it lets them add to it.

use kube::core::{Selector, SelectorExt as _};

use crate::gateway::kinds::{GROUP, Gateway, ListenerSet, Namespaces, ObjectRef};
use crate::gateway::world::World;
use crate::references::Verdict;

/// A ListenerSet of a Gateway.
pub(in crate::gateway) struct Set<'a> {
    /// As it is written.
    pub(in crate::gateway) object: &'a ListenerSet,
    /// Whether the Gateway lets it.
    pub(in crate::gateway) allowed: Verdict,
}

/// The sets that want to add to this Gateway, the oldest first.
pub(in crate::gateway) fn sets_of<'a>(
    gateway: &Gateway,
    sets: &[&'a ListenerSet],
    world: &World,
) -> Vec<Set<'a>> {
    let mut found: Vec<Set<'a>> =
        sets.iter().map(|object| Set { object, allowed: is_allowed(gateway, object, world) }).collect();
    found.sort_by(|a, b| a.object.meta.rank().cmp(&b.object.meta.rank()));
    found
}

/// The Gateway that a set wants to add to.
pub(in crate::gateway) fn parent_of(set: &ListenerSet) -> Option<ObjectRef> {
    let parent = &set.spec.parent_ref;
    let is_gateway = parent.group.as_deref().unwrap_or(GROUP) == GROUP
        && parent.kind.as_deref().unwrap_or("Gateway") == "Gateway";
    let namespace = parent.namespace.as_deref().unwrap_or(&set.meta.at.namespace);
    is_gateway.then(|| ObjectRef::new(namespace, &parent.name))
}

fn is_allowed(gateway: &Gateway, set: &ListenerSet, world: &World) -> Verdict {
    if let Some(why) = &set.unreadable {
        return Verdict::no("Invalid", format!("it can't be read: {why}"));
    }
    let chosen = gateway.spec.listener_namespaces();
    let (own, there) = (&gateway.meta.at.namespace, &set.meta.at.namespace);
    if namespace_is_chosen(&chosen, "None", own, there, world) {
        return Verdict::yes("Accepted", format!("Gateway {} takes the listeners", gateway.meta.at));
    }
    let message = format!(
        "Gateway {} takes no ListenerSets of namespace {there}: its spec.allowedListeners.namespaces says which",
        gateway.meta.at
    );
    Verdict::no("NotAllowed", message)
}

/// Whether namespace `there` is one of those that `own` chooses; `default` stands for what is left out.
pub(in crate::gateway) fn namespace_is_chosen(
    chosen: &Namespaces,
    default: &str,
    own: &str,
    there: &str,
    world: &World,
) -> bool {
    match chosen.from.as_deref().unwrap_or(default) {
        "All" => true,
        "Same" => own == there,
        "Selector" => {
            let selector = chosen.selector.clone().and_then(|selector| Selector::try_from(selector).ok());
            let labels = world.namespaces.get(there);
            selector.zip(labels).is_some_and(|(selector, labels)| selector.matches(labels))
        }
        _ => false,
    }
}
