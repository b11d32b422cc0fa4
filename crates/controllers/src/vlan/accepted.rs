//! The last spec that pods took, in a ConfigMap beside them: it outlives every pod, so that a new one begins with it while
//! a newer spec is refused, and the children are kept as it asks for. Written by the operator alone; a pod reads it as a
//! file. It gives nobody more than the pods' own rights do.

use causeway_ir::Problem;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt, core::object::HasStatus};
use serde::{Serialize, de::DeserializeOwned};

use crate::framework::{
    children::{Children, typed},
    kinds::CONFIG_MAP,
};

/// The most that is kept: a ConfigMap takes a mebibyte in all.
const LARGEST: usize = 1_000_000;

/// A kind whose last accepted spec is kept.
pub(crate) trait Accepted:
    Resource<DynamicType = ()> + HasStatus + Clone + Serialize + DeserializeOwned
{
    /// The ConfigMap and its entry that keep it.
    fn place(&self) -> (String, &'static str);

    /// Whether a pod serves the newest spec and none refuses it.
    fn is_taken(&self) -> bool;
}

/// The last accepted form of the object: itself, once a pod serves it and none refuses it, or what was kept before.
pub(crate) fn last<K: Accepted>(object: &K, problems: &[Problem], children: &Children) -> Option<K> {
    if problems.is_empty() && object.is_taken() {
        return Some(bare(object));
    }
    kept(object, children)
}

/// What was kept of the object. Whoever may write ConfigMaps of its namespace may have changed that: it has to be checked
/// as the object itself is, and says nothing of whose it is.
pub(crate) fn kept<K: Accepted>(object: &K, children: &Children) -> Option<K> {
    let (name, entry) = object.place();
    let map = children.get(CONFIG_MAP, &object.namespace()?, &name)?;
    let map: ConfigMap = typed(&map)?;
    let mut kept: K = serde_json::from_str(map.data?.get(entry)?).ok()?;
    // Another object of the same name has nothing to do with this one.
    let is_same = kept.uid() == object.uid();
    *kept.meta_mut() = ObjectMeta { generation: kept.meta().generation, ..bare(object).meta().clone() };
    *kept.status_mut() = None;
    is_same.then_some(kept)
}

/// What is kept; none for what does not fit.
pub(crate) fn text<K: Accepted>(accepted: &K) -> Option<String> {
    serde_json::to_string(accepted).ok().filter(|text| text.len() <= LARGEST)
}

/// The object without what changes by itself.
fn bare<K: Accepted>(object: &K) -> K {
    let mut bare = object.clone();
    let metadata = object.meta();
    *bare.meta_mut() = ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        generation: metadata.generation,
        ..ObjectMeta::default()
    };
    *bare.status_mut() = None;
    bare
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use causeway_api::{ProxyServer, ProxyServerStatus, ReplicaStatus, names};
    use serde_json::json;

    use super::*;
    use crate::vlan::proxy::fixture;

    fn reported(generation: i64, refused: Option<&str>) -> ProxyServer {
        let report = ReplicaStatus {
            observed_generation: Some(generation),
            serving: refused.is_none(),
            refused: refused.map(Into::into),
            ..ReplicaStatus::default()
        };
        let mut proxy = fixture::proxy(&json!({}));
        proxy.status = Some(ProxyServerStatus { replicas: vec![report], ..ProxyServerStatus::default() });
        proxy
    }

    #[test]
    fn a_spec_is_kept_once_it_is_served_and_stays_while_a_newer_one_is_refused() {
        let nothing = Children::fixed(&[(CONFIG_MAP, Vec::new())]);
        assert_eq!(last(&reported(1, None), &[], &nothing), None, "of the spec before");
        assert_eq!(last(&reported(2, Some("no")), &[], &nothing), None);
        let good = last(&reported(2, None), &[], &nothing).unwrap();
        assert_eq!((good.metadata.generation, &good.status), (Some(2), &None));

        let metadata = ObjectMeta {
            name: Some(names::accepted_config_map("lab")),
            namespace: Some("clusters".into()),
            ..ObjectMeta::default()
        };
        let data = BTreeMap::from([(names::ACCEPTED_FILE.to_owned(), text(&good).unwrap())]);
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        let mut kept = serde_json::to_value(map).unwrap();
        kept["apiVersion"] = "v1".into();
        kept["kind"] = "ConfigMap".into();
        let children = Children::fixed(&[(CONFIG_MAP, vec![serde_json::from_value(kept).unwrap()])]);
        let problem = Problem { path: "spec.backends[1]".into(), message: "is taken".into() };
        let mut bad = reported(3, Some("is taken"));
        bad.metadata.generation = Some(3);
        assert_eq!(last(&bad, std::slice::from_ref(&problem), &children), Some(good.clone()));
        assert_eq!(last(&bad, &[], &children), Some(good), "refused by the proxies alone");
        bad.metadata.uid = Some("another".into());
        assert_eq!(last(&bad, &[problem], &children), None, "another object of the same name");
    }

    #[test]
    fn what_is_kept_can_not_be_that_of_another_namespace() {
        let mut forged = bare(&fixture::proxy(&json!({})));
        forged.metadata.namespace = Some("victim".into());
        forged.metadata.name = Some("edge".into());
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": names::accepted_config_map("lab"), "namespace": "clusters" },
            "data": { names::ACCEPTED_FILE: serde_json::to_string(&forged).unwrap() },
        });
        let children = Children::fixed(&[(CONFIG_MAP, vec![serde_json::from_value(map).unwrap()])]);
        let kept = kept(&fixture::proxy(&json!({})), &children).unwrap();
        assert_eq!((kept.namespace().as_deref(), kept.name_any().as_str()), (Some("clusters"), "lab"));
    }
}
