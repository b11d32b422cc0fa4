//! ServiceAccount tokens for pods: asked for with TokenRequest, bound to the pod, renewed before they expire.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::json;

use super::volume;

/// Where in-cluster clients look for their credentials.
pub(super) const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const DEFAULT_LIFETIME: i64 = 3600;

#[derive(Clone, Debug)]
struct Held {
    token: String,
    renew_at: Timestamp,
}

/// The tokens of one pod, by volume and path.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens(BTreeMap<(String, String), Held>);

impl Tokens {
    /// Asks for the tokens that are missing or due.
    pub(super) async fn renew(&mut self, client: &Client, pod: &Pod, now: Timestamp) -> kube::Result<()> {
        let account = account(pod);
        let accounts: Api<ServiceAccount> =
            Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        for (volume, wanted) in volume::token_requests(pod) {
            let key = (volume, wanted.path.clone());
            if self.0.get(&key).is_some_and(|held| now < held.renew_at) {
                continue;
            }
            let lifetime = wanted.expiration_seconds.unwrap_or(DEFAULT_LIFETIME);
            let request = TokenRequest {
                spec: TokenRequestSpec {
                    audiences: wanted.audience.clone().into_iter().collect(),
                    expiration_seconds: Some(lifetime),
                    bound_object_ref: Some(BoundObjectReference {
                        api_version: Some("v1".into()),
                        kind: Some("Pod".into()),
                        name: pod.metadata.name.clone(),
                        uid: pod.metadata.uid.clone(),
                    }),
                },
                ..TokenRequest::default()
            };
            let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await?;
            let Some(status) = answer.status else { continue };
            let renew_at = renewal(now, status.expiration_timestamp.0);
            self.0.insert(key, Held { token: status.token, renew_at });
        }
        Ok(())
    }

    /// The tokens as volumes need them.
    pub(super) fn values(&self) -> BTreeMap<(String, String), String> {
        self.0.iter().map(|(key, held)| (key.clone(), held.token.clone())).collect()
    }

    /// How long until the first one is due.
    pub(super) fn until_renewal(&self, now: Timestamp) -> Option<Duration> {
        let first = self.0.values().map(|held| held.renew_at).min()?;
        Some(Duration::from_secs((first.as_second() - now.as_second()).max(1) as u64))
    }
}

/// A token is renewed after four fifths of its life.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = (expires.as_second() - now.as_second()).max(0);
    Timestamp::from_second(now.as_second() + life * 4 / 5).unwrap_or(now)
}

/// The pod's ServiceAccount.
pub(super) fn account(pod: &Pod) -> String {
    let name = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned())
}

/// Adds the volume with token, CA and namespace that Kubernetes' admission adds, unless the pod has it or declines it.
pub(super) async fn with_api_access(client: &Client, mut pod: Pod) -> kube::Result<Pod> {
    let namespace = pod.namespace().unwrap_or_default();
    let name = account(&pod);
    let Some(spec) = &mut pod.spec else { return Ok(pod) };
    let mounted = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .flat_map(|container| container.volume_mounts.iter().flatten())
        .any(|mount| mount.mount_path.trim_end_matches('/') == MOUNT_PATH);
    if mounted || spec.automount_service_account_token == Some(false) {
        return Ok(pod);
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let own_choice = spec.automount_service_account_token.is_some();
    match accounts.get_opt(&name).await? {
        Some(account) if own_choice || account.automount_service_account_token != Some(false) => {}
        _ => return Ok(pod),
    }
    let volume = serde_json::from_value(json!({"name": "kube-api-access", "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]}}))
    .map_err(kube::Error::SerdeError)?;
    let mount =
        serde_json::from_value(json!({"name": "kube-api-access", "mountPath": MOUNT_PATH, "readOnly": true}))
            .map_err(kube::Error::SerdeError)?;
    spec.volumes.get_or_insert_default().push(volume);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container.volume_mounts.get_or_insert_default().push(Clone::clone(&mount));
    }
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renews_before_the_end() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(renewal(at(1000), at(2000)), at(1800));
        assert_eq!(renewal(at(1000), at(900)), at(1000), "an expired token is due at once");
    }
}
