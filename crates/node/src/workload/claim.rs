//! Which objects belong to a controller: those it owns and selects; orphans it selects are adopted, others are let go.

use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::{Selector, SelectorExt},
    runtime::reflector::{ObjectRef, Store},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Error, controller_reference, is_code};

/// What a controller has to do about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Owned and selected.
    Mine,
    /// Selected and without a controller.
    Adopt,
    /// Owned but no longer selected.
    Release,
    /// None of ours.
    Other,
}

/// Decides about one object; a controller that is being deleted adopts nothing.
pub(super) fn claim(owner: &ObjectMeta, selector: &Selector, object: &ObjectMeta) -> Claim {
    let none = BTreeMap::new();
    let selected = selector.matches(object.labels.as_ref().unwrap_or(&none));
    match controller_uid(object) {
        Some(uid) if Some(uid) == owner.uid.as_deref() => {
            if selected {
                Claim::Mine
            } else {
                Claim::Release
            }
        }
        None if selected && owner.deletion_timestamp.is_none() && object.deletion_timestamp.is_none() => {
            Claim::Adopt
        }
        _ => Claim::Other,
    }
}

/// The uid of the controller that owns an object.
pub(super) fn controller_uid(object: &ObjectMeta) -> Option<&str> {
    let owners = object.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// The selector of a workload; one that cannot be read selects nothing.
pub(super) fn selector(selector: &LabelSelector) -> Option<Selector> {
    let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if empty {
        return None;
    }
    selector.clone().try_into().ok()
}

/// The objects of a kind that belong to `owner`, after those it has to adopt and to let go. What is no `member` is not for it,
/// whatever its labels say.
pub(super) async fn claimed<O, K>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    kind: &'static str,
    is_member: impl Fn(&K) -> bool,
) -> Result<Vec<K>, Error>
where
    O: Resource<DynamicType = ()>,
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let namespace = owner.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let listed = api.list(&ListParams::default()).await.map_err(Error::api("list", kind, &namespace, "*"))?;
    let reference = controller_reference(owner);
    let mut mine = Vec::new();
    for object in listed.items {
        let own = match (claim(owner.meta(), selector, object.meta()), is_member(&object)) {
            (Claim::Mine, true) => {
                mine.push(object);
                continue;
            }
            (Claim::Adopt, true) => true,
            (Claim::Release, _) | (Claim::Mine, false) => false,
            (Claim::Other, _) | (Claim::Adopt, false) => continue,
        };
        let name = object.name_any();
        let patch = Patch::Merge(ownership_patch(object.meta(), &reference, own));
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(patched) if own => mine.push(patched),
            Ok(_) => {}
            // Gone or replaced meanwhile: its own event comes.
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(Error::api("claim", kind, &namespace, &name)(error)),
        }
    }
    Ok(mine)
}

/// The controllers that select an object which names no owner.
pub(super) fn selecting<O, K>(
    store: &Store<O>,
    object: &K,
    selector_of: impl Fn(&O) -> Option<&LabelSelector>,
) -> Vec<ObjectRef<O>>
where
    O: Resource<DynamicType = ()> + Clone,
    K: Resource<DynamicType = ()>,
{
    if controller_uid(object.meta()).is_some() {
        return Vec::new();
    }
    let selects = |owner: &O| {
        owner.namespace() == object.namespace()
            && selector_of(owner).and_then(selector).is_some_and(|selector| selector.matches(object.labels()))
    };
    store.state_filter(selects).iter().map(|owner| ObjectRef::from_obj(owner.as_ref())).collect()
}

/// A merge patch that adds or removes the owner; the uid makes it fail on another object of the same name.
pub(super) fn ownership_patch(
    object: &ObjectMeta,
    owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    own: bool,
) -> Value {
    let mut owners = object.owner_references.clone().unwrap_or_default();
    owners.retain(|reference| reference.uid != owner.uid);
    if own {
        owners.push(owner.clone());
    }
    json!({"metadata": {"uid": object.uid, "ownerReferences": owners}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adopts_orphans_and_lets_go_of_what_is_not_selected() {
        let meta = |json| serde_json::from_value::<ObjectMeta>(json).unwrap();
        let owner = meta(json!({"name": "o", "uid": "1"}));
        let selector: Selector = Selector::from_iter([("app".to_owned(), "a".to_owned())]);
        let owned_by = |uid: &str, app: &str| {
            let reference =
                json!({"apiVersion": "v1", "kind": "K", "name": "o", "uid": uid, "controller": true});
            meta(json!({"labels": {"app": app}, "ownerReferences": [reference]}))
        };
        let cases = [
            (owned_by("1", "a"), Claim::Mine),
            (owned_by("1", "b"), Claim::Release),
            (owned_by("2", "a"), Claim::Other),
            (meta(json!({"labels": {"app": "a"}})), Claim::Adopt),
            (meta(json!({"labels": {"app": "b"}})), Claim::Other),
            (
                meta(json!({"labels": {"app": "a"}, "deletionTimestamp": "2026-01-01T00:00:00Z"})),
                Claim::Other,
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(claim(&owner, &selector, &object), expected, "{object:?}");
        }
    }
}
