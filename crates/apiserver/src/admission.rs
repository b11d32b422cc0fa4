//! What the server itself adds to or refuses in a write, after defaulting and before validation: the steps that need
//! to look at other objects or at the user.

mod pod_security;
pub(crate) mod policies;

use serde_json::{Value, json};

use crate::crd;
use crate::error::ApiError;
use crate::object;
use crate::rest::Call;
use crate::server::Server;
use crate::store::{GroupResource, Key};
use pod_security::Level;

/// Keeps a CRD until its objects are gone.
pub(crate) const CRD_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Server {
    /// Completes or refuses a new or changed object.
    pub(crate) fn admit(
        &self,
        call: &Call<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let resource = call.resource;
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "services") => self
                .cluster_ips
                .assign(&self.store, new, old)
                .and_then(|()| self.node_ports.assign(&self.store, new))
                .map_err(|error| ApiError::invalid("", "Service", object::name(new), &[error])),
            ("", "pods") => {
                admit_pod(new);
                self.check_pod_security(call, new, old)
            }
            ("rbac.authorization.k8s.io", plural) => {
                self.access.check_escalation(call.user, plural, new, old)
            }
            (policies::GROUP, "validatingadmissionpolicies") => {
                policies::admit(new, old);
                Ok(())
            }
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                self.admit_crd(call, new, old);
                Ok(())
            }
            _ if old.is_none() && self.is_going_away(&resource.group, &resource.plural) => {
                Err(ApiError::method_not_allowed())
            }
            _ => Ok(()),
        }
    }

    /// A pod asks for no more than its namespace's level allows, whoever makes it: the user, or a controller for one.
    fn check_pod_security(&self, call: &Call<'_>, pod: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        // Where it was placed says nothing of what it asks for; nor does what is reported of it.
        let asked = |pod: &Value| {
            let mut spec = pod["spec"].clone();
            spec.as_object_mut().map(|spec| spec.remove("nodeName"));
            spec
        };
        if old.is_some_and(|old| asked(old) == asked(pod)) {
            return Ok(());
        }
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let key = Key::new(&GroupResource::new("", "namespaces"), "", namespace);
        let labels = self.store.get(&key).map(|stored| stored.labels.clone()).unwrap_or_default();
        let level = Level::of(labels.get(pod_security::ENFORCE).map(String::as_str));
        let violations = level.violations(&pod["spec"]);
        if violations.is_empty() {
            return Ok(());
        }
        let name = Some(object::name(pod)).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| object::meta(pod, "generateName"));
        let message = format!(
            "pods \"{name}\" is forbidden: violates PodSecurity \"{level}:latest\": {}; who may change namespaces can allow it: kubectl label namespace {namespace} {}=privileged",
            violations.join(", "),
            pod_security::ENFORCE,
        );
        Err(ApiError::forbidden("", "pods", name, message))
    }

    /// A CRD is established by the write that brings it: its names are checked against those already served.
    fn admit_crd(&self, call: &Call<'_>, crd: &mut Value, old: Option<&Value>) {
        if old.is_none() {
            let mut finalizers = object::finalizers(crd).into_iter().map(str::to_owned).collect::<Vec<_>>();
            if !finalizers.iter().any(|f| f == CRD_FINALIZER) {
                finalizers.push(CRD_FINALIZER.to_owned());
            }
            object::metadata_mut(crd).insert("finalizers".into(), json!(finalizers));
        }
        if let Some(old) = old {
            crd["status"] = old["status"].clone();
        }
        let others: Vec<Value> = self
            .store
            .list(&crd::collection(), None)
            .items
            .iter()
            .filter(|other| &*other.key.name != object::name(crd))
            .map(|other| other.value())
            .collect();
        let status = crd::accepted_status(crd, crd::name_conflict(crd, &others), &call.now);
        crd["status"] = status;
    }
}

/// A pod without a ServiceAccount runs as its namespace's default one.
fn admit_pod(pod: &mut Value) {
    let spec = object::map_at(pod, "spec");
    let given = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|field| spec.get(*field).and_then(Value::as_str).filter(|s| !s.is_empty()))
        .unwrap_or("default")
        .to_owned();
    spec.insert("serviceAccountName".into(), json!(given));
    spec.insert("serviceAccount".into(), json!(given));
}
