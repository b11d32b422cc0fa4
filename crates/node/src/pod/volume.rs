//! Volumes as directories: what each holds is decided here (pure), written by [`atomic`], linked into containers by `mounts`.

pub(super) mod atomic;
pub(super) mod claims;

use std::{collections::BTreeMap, path::PathBuf};

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use self::claims::{Claims, Unusable};
use super::{
    fields::{self, Host},
    sources::{Kind, Sources},
};

const DEFAULT_MODE: u32 = 0o644;
/// The ConfigMap in which a cluster publishes its CA; here it may be missing, and the node's own file stands in.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";

/// Why a volume cannot be set up; the texts are Kubernetes' where it has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VolumeError {
    #[error("MountVolume.SetUp failed for volume {volume:?} : {} {name:?} not found", kind.resource())]
    MissingSource { volume: String, kind: Kind, name: String },
    #[error("MountVolume.SetUp failed for volume {volume:?} : references non-existent key: {key}")]
    MissingKey { volume: String, key: String },
    #[error(
        "MountVolume.SetUp failed for volume {volume:?} : path {path:?} must be relative and must not contain \"..\""
    )]
    BadPath { volume: String, path: String },
    #[error("MountVolume.SetUp failed for volume {volume:?} : {message}")]
    Field { volume: String, message: String },
    #[error("MountVolume.SetUp failed for volume {volume:?} : {}", why.told(claim))]
    Claim { volume: String, claim: String, why: Unusable },
    #[error(
        "MountVolume.SetUp failed for volume {volume:?} : this kind of volume is not offered here; use configMap, secret, emptyDir, persistentVolumeClaim, projected, downwardAPI or hostPath"
    )]
    Unsupported { volume: String },
}

/// One file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub contents: Vec<u8>,
    pub mode: u32,
}

/// Files by their path in the volume.
pub(super) type Payload = BTreeMap<String, File>;

/// What a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Files that change with their sources.
    Files(Payload),
    /// A directory that belongs to the pod.
    Empty,
    /// A directory of the machine.
    Host(PathBuf),
    /// The directory of a claim.
    Claim(PathBuf),
}

/// Everything that volumes are made from.
pub(super) struct Inputs<'a> {
    pub pod: &'a Pod,
    pub host: Host<'a>,
    pub sources: &'a Sources,
    pub claims: &'a Claims,
    /// ServiceAccount tokens by volume and path, made beforehand.
    pub tokens: &'a BTreeMap<(String, String), String>,
    pub ca: &'a str,
}

/// Decides what one volume holds.
pub(super) fn content(volume: &Volume, inputs: &Inputs<'_>) -> Result<Content, VolumeError> {
    let mut payload = Payload::new();
    let mut writer = Writer { volume: &volume.name, inputs, payload: &mut payload };
    if volume.empty_dir.is_some() {
        return Ok(Content::Empty);
    } else if let Some(host) = &volume.host_path {
        return Ok(Content::Host(PathBuf::from(&host.path)));
    } else if let Some(source) = &volume.persistent_volume_claim {
        return match inputs.claims.get(&source.claim_name) {
            Ok(path) => Ok(Content::Claim(path.to_owned())),
            Err(why) => {
                Err(VolumeError::Claim { volume: volume.name.clone(), claim: source.claim_name.clone(), why })
            }
        };
    } else if let Some(source) = &volume.config_map {
        writer.source(
            Kind::ConfigMap,
            &source.name,
            source.items.as_deref(),
            source.optional,
            mode(source.default_mode),
        )?;
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        writer.source(
            Kind::Secret,
            name,
            source.items.as_deref(),
            source.optional,
            mode(source.default_mode),
        )?;
    } else if let Some(source) = &volume.downward_api {
        writer.fields(source.items.as_deref(), mode(source.default_mode))?;
    } else if let Some(source) = &volume.projected {
        for projection in source.sources.iter().flatten() {
            writer.projection(projection, mode(source.default_mode))?;
        }
    } else {
        return Err(VolumeError::Unsupported { volume: volume.name.clone() });
    }
    Ok(Content::Files(payload))
}

/// The tokens that a pod's volumes ask for.
pub(super) fn token_requests(pod: &Pod) -> Vec<(String, &ServiceAccountTokenProjection)> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes
        .iter()
        .flat_map(|volume| {
            let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            sources.filter_map(|source| Some((volume.name.clone(), source.service_account_token.as_ref()?)))
        })
        .collect()
}

fn mode(mode: Option<i32>) -> u32 {
    mode.map_or(DEFAULT_MODE, |mode| mode as u32 & 0o777)
}

struct Writer<'a> {
    volume: &'a str,
    inputs: &'a Inputs<'a>,
    payload: &'a mut Payload,
}

impl Writer<'_> {
    fn projection(&mut self, projection: &VolumeProjection, mode: u32) -> Result<(), VolumeError> {
        if let Some(source) = &projection.config_map {
            self.source(Kind::ConfigMap, &source.name, source.items.as_deref(), source.optional, mode)
        } else if let Some(source) = &projection.secret {
            self.source(Kind::Secret, &source.name, source.items.as_deref(), source.optional, mode)
        } else if let Some(source) = &projection.downward_api {
            self.fields(source.items.as_deref(), mode)
        } else if let Some(token) = &projection.service_account_token {
            let key = (self.volume.to_owned(), token.path.clone());
            let contents = self.inputs.tokens.get(&key).cloned().unwrap_or_default().into_bytes();
            // Only the pod's own user has a use for the token.
            self.put(&token.path, File { contents, mode: 0o600 })
        } else {
            Err(VolumeError::Unsupported { volume: self.volume.to_owned() })
        }
    }

    fn source(
        &mut self,
        kind: Kind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        default_mode: u32,
    ) -> Result<(), VolumeError> {
        let optional = optional == Some(true);
        let stand_in = BTreeMap::from([("ca.crt".to_owned(), self.inputs.ca.as_bytes().to_vec())]);
        let entries = match self.inputs.sources.get(kind, name) {
            Some(entries) => entries,
            None if kind == Kind::ConfigMap && name == ROOT_CA => &stand_in,
            None if optional => return Ok(()),
            None => {
                return Err(VolumeError::MissingSource {
                    volume: self.volume.to_owned(),
                    kind,
                    name: name.to_owned(),
                });
            }
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            for (key, contents) in entries {
                self.put(key, File { contents: contents.clone(), mode: default_mode })?;
            }
            return Ok(());
        };
        for item in items {
            match entries.get(&item.key) {
                Some(contents) => {
                    let mode = item.mode.map_or(default_mode, |own| mode(Some(own)));
                    self.put(&item.path, File { contents: contents.clone(), mode })?;
                }
                None if optional => {}
                None => {
                    return Err(VolumeError::MissingKey {
                        volume: self.volume.to_owned(),
                        key: item.key.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn fields(
        &mut self,
        items: Option<&[DownwardAPIVolumeFile]>,
        default_mode: u32,
    ) -> Result<(), VolumeError> {
        for item in items.unwrap_or_default() {
            let failed = |message| VolumeError::Field { volume: self.volume.to_owned(), message };
            let pod = self.inputs.pod;
            let value = if let Some(field) = &item.field_ref {
                fields::field(pod, self.inputs.host, &field.field_path).map_err(failed)?
            } else if let Some(selector) = &item.resource_field_ref {
                let name = selector.container_name.as_deref().unwrap_or_default();
                let containers = pod
                    .spec
                    .iter()
                    .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
                let container = containers
                    .into_iter()
                    .find(|container| container.name == name)
                    .ok_or_else(|| failed(format!("container {name:?} not found")))?;
                fields::resource(container, self.inputs.host, selector).map_err(failed)?
            } else {
                continue;
            };
            let mode = item.mode.map_or(default_mode, |own| mode(Some(own)));
            self.put(&item.path, File { contents: value.into_bytes(), mode })?;
        }
        Ok(())
    }

    fn put(&mut self, path: &str, file: File) -> Result<(), VolumeError> {
        let bad = path.is_empty()
            || path.starts_with('/')
            || path.split('/').any(|part| part.starts_with("..") || part.is_empty());
        if bad {
            return Err(VolumeError::BadPath { volume: self.volume.to_owned(), path: path.to_owned() });
        }
        self.payload.insert(path.to_owned(), file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content_of(volume: serde_json::Value, sources: &Sources) -> Result<Content, VolumeError> {
        let pod: Pod = serde_json::from_value(
            json!({"metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}}}),
        )
        .unwrap();
        let host = Host {
            node: "n",
            address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            pod_address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            cpus: 1,
            memory: 1,
        };
        let tokens = BTreeMap::from([(("v".to_owned(), "token".to_owned()), "secret-token".to_owned())]);
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let claims =
            Claims::default().with("data", Ok("/claims/data".into())).with("new", Err(Unusable::Unbound));
        content(&volume, &Inputs { pod: &pod, host, sources, claims: &claims, tokens: &tokens, ca: "PEM" })
    }

    fn files(content: Content) -> Vec<(String, String, u32)> {
        let Content::Files(payload) = content else { panic!("not files: {content:?}") };
        payload
            .into_iter()
            .map(|(path, file)| (path, String::from_utf8(file.contents).unwrap(), file.mode))
            .collect()
    }

    #[test]
    fn items_choose_and_rename_keys() {
        let sources = Sources::default().with(Kind::ConfigMap, "m", &[("a", "1"), ("b", "2")]);
        let all =
            content_of(json!({"name": "v", "configMap": {"name": "m", "defaultMode": 0o400}}), &sources)
                .unwrap();
        assert_eq!(files(all), [("a".into(), "1".into(), 0o400), ("b".into(), "2".into(), 0o400)]);
        let one = json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "b", "path": "dir/c", "mode": 0o600}]}});
        assert_eq!(files(content_of(one, &sources).unwrap()), [("dir/c".into(), "2".into(), 0o600)]);
        let missing = json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "x", "path": "x"}]}});
        assert_eq!(
            content_of(missing, &sources),
            Err(VolumeError::MissingKey { volume: "v".into(), key: "x".into() })
        );
        let escape =
            json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": "../x"}]}});
        assert!(matches!(content_of(escape, &sources), Err(VolumeError::BadPath { .. })));
    }

    #[test]
    fn missing_sources_are_named_unless_optional() {
        let sources = Sources::default();
        let error = content_of(json!({"name": "v", "secret": {"secretName": "s"}}), &sources).unwrap_err();
        assert_eq!(error.to_string(), r#"MountVolume.SetUp failed for volume "v" : secret "s" not found"#);
        let optional =
            content_of(json!({"name": "v", "secret": {"secretName": "s", "optional": true}}), &sources)
                .unwrap();
        assert_eq!(files(optional), []);
        assert!(matches!(
            content_of(json!({"name": "v", "nfs": {"server": "s", "path": "/"}}), &sources),
            Err(VolumeError::Unsupported { .. })
        ));
    }

    #[test]
    fn a_claim_is_a_directory_once_it_is_bound() {
        let of = |claim: &str| {
            let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
            content_of(volume, &Sources::default())
        };
        assert_eq!(of("data"), Ok(Content::Claim("/claims/data".into())));
        for (claim, word) in [("new", "not bound yet"), ("gone", r#"persistentvolumeclaim "gone" not found"#)]
        {
            assert!(of(claim).unwrap_err().to_string().contains(word), "{claim}");
        }
    }

    #[test]
    fn projects_token_ca_and_fields_into_one_directory() {
        let volume = json!({"name": "v", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}});
        let files = files(content_of(volume, &Sources::default()).unwrap());
        assert_eq!(
            files,
            [
                ("ca.crt".into(), "PEM".into(), 0o644),
                ("namespace".into(), "ns".into(), 0o644),
                ("token".to_owned(), "secret-token".to_owned(), 0o600)
            ]
        );
    }
}
