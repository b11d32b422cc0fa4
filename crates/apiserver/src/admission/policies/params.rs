//! The objects that parametrise a policy for one request.

use std::sync::Arc;

use serde_json::Value;

use super::attempt::Attempt;
use crate::builtin::selects;
use crate::resource::Resource;
use crate::rest::view;
use crate::server::Server;
use crate::store::{GroupResource, Key};

/// `paramKind` of a policy.
#[derive(Debug)]
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
}

impl ParamKind {
    pub(super) fn new(source: &Value) -> Option<Self> {
        let api_version = source["apiVersion"].as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: source["kind"].as_str()?.to_owned(),
        })
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// What is served under that name.
    pub(super) fn find(&self, server: &Server) -> Result<Arc<Resource>, String> {
        let listing = server.catalog.listing();
        let same =
            |r: &&Arc<Resource>| r.group == self.group && r.version == self.version && r.kind == self.kind;
        listing.iter().find(same).cloned().ok_or_else(|| {
            let Self { group, version, kind } = self;
            format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        })
    }
}

/// The params that a binding's `paramRef` means: each is judged by on its own. None at all is one run without.
pub(super) fn collect(
    server: &Server,
    resource: Option<&Resource>,
    reference: &Value,
    attempt: &Attempt<'_>,
) -> Result<Vec<Option<Value>>, String> {
    let Some(resource) = resource.filter(|_| reference.is_object()) else { return Ok(vec![None]) };
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let namespace = match (resource.namespaced, text("namespace"), attempt.namespace) {
        (false, "", _) => "",
        (false, ..) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "", "") => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "", of_object) => of_object,
        (true, given, _) => given,
    };
    let collection = GroupResource::new(&resource.storage_group, &resource.plural);
    let found: Vec<_> = match text("name") {
        "" => {
            let selector = &reference["selector"];
            let all = server.store.list(&collection, Some(namespace).filter(|n| !n.is_empty())).items;
            let params = all.into_iter().map(|stored| view(resource, &stored));
            params.filter(|param| selects(selector, &param["metadata"]["labels"])).collect()
        }
        name => {
            let stored = server.store.get(&Key::new(&collection, namespace, name));
            stored.into_iter().map(|stored| view(resource, &stored)).collect()
        }
    };
    if found.is_empty() && text("parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}
