//! ConfigMaps and Secrets that a pod refers to: which ones, and their contents at one moment.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Container, EnvFromSource, EnvVarSource, Pod, Secret, Volume},
};
use kube::{Api, Client, ResourceExt};

/// The two kinds of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    /// The word in Kubernetes' messages.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// A source by name; `namespace` is that of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceRef {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl SourceRef {
    /// Its contents; none if it is not there.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn fetch(&self, client: &Client) -> kube::Result<Option<BTreeMap<String, Vec<u8>>>> {
        Ok(match self.kind {
            Kind::ConfigMap => Api::<ConfigMap>::namespaced(client.clone(), &self.namespace)
                .get_opt(&self.name)
                .await?
                .map(config_map_contents),
            Kind::Secret => Api::<Secret>::namespaced(client.clone(), &self.namespace)
                .get_opt(&self.name)
                .await?
                .map(|secret| bytes(secret.data)),
        })
    }
}

/// Contents of sources; what is missing is missing in the API.
#[derive(Clone, Debug, Default)]
pub struct Sources(HashMap<(Kind, String), BTreeMap<String, Vec<u8>>>);

impl Sources {
    /// Reads every source that the pod refers to.
    pub(super) async fn fetch(client: &Client, pod: &Pod) -> kube::Result<Self> {
        let mut contents = HashMap::new();
        for source in references(pod) {
            if let Some(found) = source.fetch(client).await? {
                contents.insert((source.kind, source.name), found);
            }
        }
        Ok(Self(contents))
    }

    /// Takes what was read of one.
    pub fn insert(&mut self, source: SourceRef, contents: BTreeMap<String, Vec<u8>>) {
        self.0.insert((source.kind, source.name), contents);
    }

    /// The contents of one source.
    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.0.get(&(kind, name.to_owned()))
    }

    #[cfg(test)]
    pub(super) fn with(mut self, kind: Kind, name: &str, entries: &[(&str, &str)]) -> Self {
        let entries =
            entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        self.0.insert((kind, name.to_owned()), entries);
        self
    }
}

fn config_map_contents(map: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let mut contents = bytes(map.binary_data);
    contents.extend(map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes())));
    contents
}

fn bytes(data: Option<BTreeMap<String, ByteString>>) -> BTreeMap<String, Vec<u8>> {
    data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
}

/// Every source that a pod refers to, in environment and volumes.
pub fn references(pod: &Pod) -> BTreeSet<SourceRef> {
    let mut found: Vec<(Kind, Option<&str>)> = Vec::new();
    if let Some(spec) = &pod.spec {
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            of_container(container, &mut found);
        }
        for volume in spec.volumes.iter().flatten() {
            of_volume(volume, &mut found);
        }
    }
    let namespace = pod.namespace().unwrap_or_default();
    found
        .into_iter()
        .filter_map(|(kind, name)| {
            let name = name.filter(|name| !name.is_empty())?.to_owned();
            Some(SourceRef { kind, namespace: namespace.clone(), name })
        })
        .collect()
}

fn of_container<'a>(container: &'a Container, found: &mut Vec<(Kind, Option<&'a str>)>) {
    for EnvFromSource { config_map_ref, secret_ref, .. } in container.env_from.iter().flatten() {
        found.extend(config_map_ref.as_ref().map(|source| (Kind::ConfigMap, Some(source.name.as_str()))));
        found.extend(secret_ref.as_ref().map(|source| (Kind::Secret, Some(source.name.as_str()))));
    }
    for EnvVarSource { config_map_key_ref, secret_key_ref, .. } in
        container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref())
    {
        found.extend(config_map_key_ref.as_ref().map(|key| (Kind::ConfigMap, Some(key.name.as_str()))));
        found.extend(secret_key_ref.as_ref().map(|key| (Kind::Secret, Some(key.name.as_str()))));
    }
}

fn of_volume<'a>(volume: &'a Volume, found: &mut Vec<(Kind, Option<&'a str>)>) {
    found.extend(volume.config_map.as_ref().map(|source| (Kind::ConfigMap, Some(source.name.as_str()))));
    found.extend(volume.secret.as_ref().map(|source| (Kind::Secret, source.secret_name.as_deref())));
    for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
        found.extend(source.config_map.as_ref().map(|source| (Kind::ConfigMap, Some(source.name.as_str()))));
        found.extend(source.secret.as_ref().map(|source| (Kind::Secret, Some(source.name.as_str()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_references_in_env_and_volumes() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {
                "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]}],
                "containers": [{"name": "c", "env": [
                    {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
                    {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k"}}}]}],
                "volumes": [
                    {"name": "v", "configMap": {"name": "e"}}, {"name": "w", "secret": {"secretName": "f"}},
                    {"name": "x", "projected": {"sources": [{"configMap": {"name": "g"}}, {"secret": {"name": "h"}}]}}]
            }
        }))
        .unwrap();
        let names: Vec<_> =
            references(&pod).into_iter().map(|r| format!("{}/{}", r.kind.resource(), r.name)).collect();
        assert_eq!(
            names,
            ["configmap/a", "configmap/e", "configmap/g", "secret/b", "secret/d", "secret/f", "secret/h"]
        );
    }
}
