//! ControllerRevisions: what a set's template was, for `kubectl rollout history` and `undo`, and for pods that stay behind.

use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::runtime::RawExtension,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{member, plan::Observed};
use crate::workload::{
    controller_reference,
    hash::{same_template, template_hash},
};

const HASH: &str = "controller.kubernetes.io/hash";
/// With the dash and the hash a name stays short enough.
const LONGEST_PREFIX: usize = 223;

/// The revision of a set's template.
#[derive(Debug, PartialEq)]
pub(super) enum Update<'a> {
    /// The newest one.
    Same(&'a ControllerRevision),
    /// An older one, which gets this number: the set went back to it.
    Again(&'a ControllerRevision, i64),
    New(Box<ControllerRevision>),
}

/// Finds the revision of the set's template among all, the oldest first.
pub(super) fn update<'a>(set: &StatefulSet, revisions: &'a [ControllerRevision]) -> Update<'a> {
    let number = revisions.last().map_or(1, |newest| newest.revision + 1);
    let own = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let same = |revision: &&ControllerRevision| {
        template(revision).is_some_and(|template| same_template(&template, &own))
    };
    match revisions.iter().rev().find(same) {
        Some(found) if revisions.last().is_some_and(|newest| newest.name_any() == found.name_any()) => {
            Update::Same(found)
        }
        Some(found) => Update::Again(found, number),
        None => Update::New(Box::new(build(set, &own, number))),
    }
}

/// The revision that pods are at which have not been updated yet.
pub(super) fn current(set: &StatefulSet, revisions: &[ControllerRevision]) -> Option<ControllerRevision> {
    let name = set.status.as_ref()?.current_revision.as_deref()?;
    revisions.iter().find(|revision| revision.name_any() == name).cloned()
}

/// The template that a revision holds.
pub(super) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0["spec"]["template"].clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

fn build(set: &StatefulSet, template: &PodTemplateSpec, number: i64) -> ControllerRevision {
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let hash = template_hash(template, collisions.filter(|count| *count > 0));
    let name = set.name_any();
    let prefix = name.get(..LONGEST_PREFIX).unwrap_or(&name);
    let mut revision = ControllerRevision {
        data: Some(RawExtension(patch(template))),
        revision: number,
        ..ControllerRevision::default()
    };
    revision.metadata.name = Some(format!("{prefix}-{hash}"));
    revision.metadata.namespace = set.namespace();
    let mut labels =
        template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(HASH.to_owned(), hash);
    revision.metadata.labels = Some(labels);
    // `kubectl rollout history` shows the cause of a change from there.
    revision.metadata.annotations.clone_from(&set.metadata.annotations);
    revision.metadata.owner_references = Some(vec![controller_reference(set)]);
    revision
}

/// What puts the template back; kubectl sends it as it is.
fn patch(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".to_owned(), json!("replace"));
    }
    json!({"spec": {"template": template}})
}

/// Revisions of no pod that the history limit leaves no room for, the oldest first.
pub(super) fn beyond_history<'a>(
    observed: &Observed<'_>,
    revisions: &'a [ControllerRevision],
) -> Vec<&'a ControllerRevision> {
    let spec = observed.set.spec.as_ref();
    let limit = spec.and_then(|spec| spec.revision_history_limit).unwrap_or(10).max(0) as usize;
    let is_live = |revision: &ControllerRevision| {
        let name = revision.name_any();
        [observed.current, observed.update].iter().any(|live| live.name_any() == name)
            || observed.pods.iter().any(|pod| member::revision(pod) == name)
    };
    let mut old: Vec<&ControllerRevision> = revisions.iter().filter(|revision| !is_live(revision)).collect();
    old.truncate(old.len().saturating_sub(limit));
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(image: &str) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "ns", "uid": "u", "annotations": {"kubernetes.io/change-cause": "me"}},
            "spec": {"selector": {"matchLabels": {"app": "db"}}, "template": {
                "metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]},
            }},
        }))
        .unwrap()
    }

    fn new(set: &StatefulSet, revisions: &[ControllerRevision]) -> ControllerRevision {
        match update(set, revisions) {
            Update::New(new) => *new,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_template_has_one_revision_and_going_back_gives_it_a_new_number() {
        let (one, two) = (set("a:1"), set("a:2"));
        let first = new(&one, &[]);
        assert_eq!(first.revision, 1);
        assert_eq!(first.annotations()["kubernetes.io/change-cause"], "me");
        assert_eq!(template(&first).as_ref(), one.spec.as_ref().map(|spec| &spec.template));
        let all = [first.clone(), new(&two, std::slice::from_ref(&first))];
        assert_ne!(all[0].name_any(), all[1].name_any());
        assert_eq!(all[1].revision, 2);
        assert_eq!(update(&two, &all), Update::Same(&all[1]));
        assert_eq!(update(&one, &all), Update::Again(&all[0], 3));
    }

    #[test]
    fn a_collision_gives_another_name() {
        let mut counted = set("a:1");
        let before = new(&counted, &[]).name_any();
        counted.status.get_or_insert_default().collision_count = Some(1);
        assert_ne!(new(&counted, &[]).name_any(), before);
    }

    #[test]
    fn what_kubectl_sends_replaces_the_template() {
        let revision = new(&set("a:1"), &[]);
        let data = revision.data.unwrap().0;
        assert_eq!(data["spec"]["template"]["$patch"], "replace");
        assert_eq!(data["spec"]["template"]["spec"]["containers"][0]["image"], "a:1");
    }
}
