//! What an installation consists of: the objects of `deploy/operator.yaml` and of that for OpenShift, as far as they are there.

use std::fmt;

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use serde_json::Value;

use crate::parts::refusal;

const OPERATOR: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/operator.yaml"));
const OPENSHIFT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/operator-openshift.yaml"));

/// An object of the installation.
pub(super) struct Installed {
    resource: ApiResource,
    namespace: Option<String>,
    name: String,
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.resource.kind, self.name),
            None => write!(f, "{} {}", self.resource.kind, self.name),
        }
    }
}

impl Installed {
    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    pub(super) async fn delete(&self, client: &Client) -> anyhow::Result<()> {
        match self.api(client).delete(&self.name, &DeleteParams::background()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            Err(error) => bail!("can't delete {self}: {}", refusal::words(&error)),
        }
    }
}

/// Those that are there, the last that was made first; none where the operator is no Deployment, as on one machine.
pub(super) async fn find(client: &Client) -> anyhow::Result<Vec<Installed>> {
    let mut found = Vec::new();
    for wanted in all()? {
        match wanted.api(client).get_metadata_opt(&wanted.name).await {
            Ok(Some(_)) => found.push(wanted),
            Ok(None) => {}
            // A kind that a cluster does not have has no objects.
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => bail!("can't look for {wanted}: {}", refusal::words(&error)),
        }
    }
    let runs = found.iter().any(|one| one.resource.kind == "Deployment");
    if !runs {
        return Ok(Vec::new());
    }
    // Who runs goes first, and the namespace last.
    found.sort_by_key(|one| match one.resource.kind.as_str() {
        "Deployment" => 0,
        "Namespace" => 2,
        _ => 1,
    });
    Ok(found)
}

fn all() -> anyhow::Result<Vec<Installed>> {
    let documents = [OPERATOR, OPENSHIFT].into_iter().flat_map(|text| text.split("\n---\n"));
    documents.filter_map(|text| read(text).transpose()).collect()
}

fn read(text: &str) -> anyhow::Result<Option<Installed>> {
    let object: Value =
        serde_saphyr::from_str(text).context("an object of the installation can't be read")?;
    let Some(kind) = object["kind"].as_str() else { return Ok(None) };
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let text = |field: &str| object["metadata"][field].as_str().map(ToOwned::to_owned);
    Ok(text("name").map(|name| Installed { resource, namespace: text("namespace"), name }))
}

/// Removes a definition, and with it what is left of its objects.
pub(super) async fn delete_definition(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(error) => bail!("can't delete the definition {name}: {}", refusal::words(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_known_by_kind_and_name() {
        let all = all().unwrap();
        for (kind, name) in [
            ("Namespace", "causeway-system"),
            ("Deployment", "causeway-operator"),
            ("ClusterRole", "causeway-stowaway"),
            ("ClusterRole", "causeway:aggregate-to-edit"),
            ("RoleBinding", "causeway-operator-connect"),
        ] {
            assert!(all.iter().any(|one| one.resource.kind == kind && one.name == name), "{kind} {name}");
        }
    }
}
