//! A pod of a set: its place among the others, which its name tells, and what belongs to that place.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use kube::ResourceExt;

use crate::workload::controller_reference;

pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
pub(super) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Names the revision that a pod was made from.
pub(super) const REVISION: &str = "controller-revision-hash";

/// The first ordinal of a set.
pub(super) fn start(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref()?.start).unwrap_or(0)
}

/// How many pods a set shall have.
pub(super) fn replicas(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).max(0)
}

/// Whether an ordinal is one of those that a set shall have.
pub(super) fn is_wanted(set: &StatefulSet, ordinal: i32) -> bool {
    let place = i64::from(ordinal) - i64::from(start(set));
    (0..i64::from(replicas(set))).contains(&place)
}

/// The ordinal of a pod, if the name is one that the set gives.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i32> {
    let text = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: i32 = text.parse().ok().filter(|ordinal| *ordinal >= 0)?;
    (ordinal.to_string() == text).then_some(ordinal)
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name_any())
}

/// The revision that a pod was made from.
pub(super) fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION).map(String::as_str).unwrap_or_default()
}

pub(super) fn claim_templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name_any(), set.name_any())
}

/// Whether a claim of this name is one of a pod of the set.
pub(super) fn has_claim(set: &StatefulSet, name: &str) -> bool {
    let own = set.name_any();
    claim_templates(set).iter().any(|template| {
        let rest = name.strip_prefix(&template.name_any()).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|pod| ordinal(&own, pod).is_some())
    })
}

/// The claims that the pod at this place has.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let selected = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        claim.metadata.name = Some(claim_name(set, template, ordinal));
        claim.metadata.namespace = set.namespace();
        claim.metadata.labels.get_or_insert_default().extend(selected.clone());
        claim.status = None;
        claim
    };
    claim_templates(set).iter().map(claim).collect()
}

/// The pod at this place, from a template.
pub(super) fn build_pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut pod = Pod { spec: template.spec.clone(), ..Pod::default() };
    let name = pod_name(set, ordinal);
    pod.metadata.name = Some(name.clone());
    pod.metadata.namespace = set.namespace();
    pod.metadata.annotations = metadata.annotations;
    pod.metadata.finalizers = metadata.finalizers;
    pod.metadata.owner_references = Some(vec![controller_reference(set)]);
    let mut labels = metadata.labels.unwrap_or_default();
    labels.insert(POD_NAME.to_owned(), name.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(REVISION.to_owned(), revision.to_owned());
    pod.metadata.labels = Some(labels);
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain =
        set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|name| !name.is_empty());
    let own: Vec<Volume> = claim_templates(set)
        .iter()
        .map(|template| Volume {
            name: template.name_any(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(set, template, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| !own.iter().any(|own| own.name == volume.name));
    volumes.splice(0..0, own);
    spec.volumes = spec.volumes.take().filter(|volumes| !volumes.is_empty());
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set() -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": "ns", "uid": "u"},
            "spec": {
                "serviceName": "peers", "replicas": 2, "ordinals": {"start": 3},
                "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
                    "containers": [], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
                }},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "x"}}, "spec": {}}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_name_tells_the_ordinal() {
        for (pod, expected) in [
            ("db-0", Some(0)),
            ("db-12", Some(12)),
            ("db-01", None),
            ("db-", None),
            ("db-x", None),
            ("db2-1", None),
            ("db--1", None),
        ] {
            assert_eq!(ordinal("db", pod), expected, "{pod}");
        }
        let set = set();
        let wanted: Vec<i32> = (0..9).filter(|ordinal| is_wanted(&set, *ordinal)).collect();
        assert_eq!(wanted, [3, 4]);
        assert!(
            has_claim(&set, "data-db-7") && !has_claim(&set, "data-db2-7") && !has_claim(&set, "logs-db-7")
        );
    }

    #[test]
    fn a_pod_has_its_name_everywhere_and_its_claims() {
        let set = set();
        let pod = build_pod(&set, &set.spec.as_ref().unwrap().template, "db-abc", 4);
        let label = |key: &str| pod.labels()[key].as_str();
        assert_eq!(
            (label(POD_NAME), label(POD_INDEX), label(REVISION), label("app")),
            ("db-4", "4", "db-abc", "db")
        );
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-4"), Some("peers")));
        let volumes = spec.volumes.as_ref().unwrap();
        assert_eq!(volumes.len(), 2);
        assert_eq!(volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-4");
        let claims = claims(&set, 4);
        assert_eq!(claims[0].name_any(), "data-db-4");
        assert_eq!(claims[0].labels().len(), 2);
    }
}
