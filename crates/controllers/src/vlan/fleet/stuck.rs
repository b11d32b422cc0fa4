//! Why a pod that has its node does not start: its sandbox can't be made, since its network or a volume is not there. The
//! pod itself does not say; the node tells it in Events, which are asked for only then.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams, runtime::reflector::ObjectRef};

use super::PodState;
use crate::framework::wakes::Wakes;

/// How long a pod may take to start before its Events are asked for, and how often then.
const LOOK: Duration = Duration::from_secs(5);
/// Ids in messages have at least so many digits.
const LONG_ID: usize = 32;

/// Finds out what stuck pods wait for.
pub(crate) struct Stuck<K: Resource<DynamicType = ()>> {
    client: Client,
    wakes: Wakes<K>,
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Stuck<K> {
    /// One that asks with `client` and has objects come back by `wakes`.
    pub(crate) fn new(client: Client, wakes: Wakes<K>) -> Self {
        Self { client, wakes }
    }

    /// Says of each pod that does not start why, as far as somebody has told.
    pub(crate) async fn explain(&self, object: &K, pods: &mut [PodState]) {
        let now = Timestamp::now();
        let namespace = object.namespace().unwrap_or_default();
        let starting = pods.iter_mut().filter(|pod| !pod.is_leaving && pod.trouble.is_none());
        for pod in starting {
            let Some(since) = pod.starts_since else { continue };
            self.wakes.wake_in(LOOK, ObjectRef::from_obj(object));
            if Duration::try_from(now.duration_since(since)).is_ok_and(|waits| waits >= LOOK) {
                pod.trouble = self.warning(&namespace, &pod.name).await;
            }
        }
    }

    /// The newest warning of a pod; none if there is none, or it can't be asked for.
    async fn warning(&self, namespace: &str, pod: &str) -> Option<String> {
        let fields = format!("involvedObject.kind=Pod,involvedObject.name={pod},type=Warning");
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let events = events.list(&ListParams::default().fields(&fields)).await.ok()?;
        // Probes of an earlier process say nothing of one that has not started.
        let of_start = events
            .items
            .into_iter()
            .filter(|event| event.reason.as_deref().is_some_and(|reason| reason.starts_with("Failed")));
        let newest = of_start.max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))?;
        let message = newest.message.unwrap_or_default();
        Some(format!("{}: {}", newest.reason.unwrap_or_default(), without_ids(&message)))
    }
}

/// The same text every time: each try has an id of its own.
fn without_ids(message: &str) -> String {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let is_id = |word: &str| word.len() >= LONG_ID && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut text = String::new();
    let mut rest = message;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        text.push_str(if is_id(&rest[..word]) { "…" } else { &rest[..word] });
        let end = rest[word..].chars().next().map_or(word, |c| word + c.len_utf8());
        text.push_str(&rest[word..end]);
        rest = &rest[end..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_same_at_every_try() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let message = format!("failed to setup network for sandbox \"{id}\": vlan9 · not found");
        let told = "failed to setup network for sandbox \"…\": vlan9 · not found";
        assert_eq!(without_ids(&message), told);
        assert_eq!(without_ids(&format!("(combined from similar events): {message}")), told);
        assert_eq!(without_ids("plain"), "plain");
    }
}
