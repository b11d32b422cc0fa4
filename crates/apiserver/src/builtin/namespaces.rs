//! Namespaces.

use serde_json::{Value, json};

use super::json::{fill_empty, made};
use super::kind::Kind;
use super::print;
use crate::object;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Namespace", "namespaces")
            .cluster_scoped()
            .short(&["ns"])
            .status()
            .others(&["finalize"])
            .selectable(&["status.phase"])
            .columns(print::NAMESPACE, print::namespace)
            .strategy(Namespace)
            .build(),
    ]
}

struct Namespace;

impl Strategy for Namespace {
    fn default(&self, namespace: &mut Value) {
        let name = object::name(namespace).to_owned();
        if !name.is_empty()
            && let Some(labels) = made(namespace, "metadata").and_then(|m| made(m, "labels"))
        {
            labels["kubernetes.io/metadata.name"] = name.into();
        }
    }

    /// The `kubernetes` finalizer holds a namespace until its contents are gone; it can be taken away only once the
    /// namespace is on its way out.
    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        match old {
            None => {
                let finalizers = new["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
                let held = finalizers.iter().any(|f| f == "kubernetes");
                let own = (!held).then(|| Value::from("kubernetes"));
                let finalizers: Vec<_> = finalizers.into_iter().chain(own).collect();
                new["spec"] = json!({ "finalizers": finalizers });
                new["status"] = json!({"phase": "Active"});
            }
            Some(old) if !object::is_terminating(old) => new["spec"] = old["spec"].clone(),
            Some(_) => {}
        }
        if let Some(status) = made(new, "status") {
            fill_empty(status, "phase", "Active");
        }
    }

    fn has_generation(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_labelled_and_held() {
        let mut namespace = json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}});
        Namespace.prepare(&mut namespace, None);
        Namespace.default(&mut namespace);
        let want = json!({"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        assert_eq!(namespace, want);
    }

    #[test]
    fn the_finalizer_goes_only_while_terminating() {
        let live = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}});
        let mut new = json!({"metadata": {"name": "a"}, "spec": {}});
        Namespace.prepare(&mut new, Some(&live));
        assert_eq!(new["spec"], live["spec"]);
        let mut leaving = live.clone();
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let mut new = json!({"metadata": {"name": "a"}, "spec": {}});
        Namespace.prepare(&mut new, Some(&leaving));
        assert_eq!(new["spec"], json!({}));
    }
}
