//! Events about objects, deduplicated: the same thing said again raises the count of the Event that said it first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use causeway_base::lock::lock;
use causeway_base::random;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

/// The most Events that are remembered for counting.
const REMEMBERED: usize = 4096;
const MAX_MESSAGE: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    field_path: Option<String>,
    reason: String,
    message: String,
}

#[derive(Clone, Debug)]
struct Said {
    name: String,
    count: i32,
}

/// Writes Events for one component of this node.
#[derive(Clone)]
pub(crate) struct Recorder {
    client: Client,
    component: &'static str,
    host: Arc<str>,
    said: Arc<Mutex<HashMap<Key, Said>>>,
}

impl Recorder {
    pub(crate) fn new(client: Client, component: &'static str, host: &str) -> Self {
        Self { client, component, host: host.into(), said: Arc::default() }
    }

    /// Says that something went as it should.
    pub(crate) async fn normal<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        message: &str,
    ) {
        self.record("Normal", object.object_ref(&()), reason, message).await;
    }

    /// Says that something needs attention.
    pub(crate) async fn warning<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        reason: &str,
        message: &str,
    ) {
        self.record("Warning", object.object_ref(&()), reason, message).await;
    }

    /// Writes one Event; a failure only costs the Event.
    pub(crate) async fn record(&self, type_: &str, regarding: ObjectReference, reason: &str, message: &str) {
        let message = shorten(message);
        let key = Key {
            uid: regarding.uid.clone().unwrap_or_default(),
            field_path: regarding.field_path.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let now = Timestamp::now();
        if let Some(said) = self.count(&key) {
            let patch = Patch::Merge(json!({"count": said.count, "lastTimestamp": Time(now)}));
            match events.patch(&said.name, &PatchParams::default(), &patch).await {
                Ok(_) => return,
                Err(error) if crate::workload::is_code(&error, 404) => {}
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        reason,
                        "cannot count an event"
                    );
                    return;
                }
            }
        }
        let event = build(type_, regarding, reason, message, self.component, &self.host, now);
        let name = event.name_any();
        match events.create(&PostParams::default(), &event).await {
            Ok(_) => self.remember(key, name),
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, reason, "cannot write an event");
            }
        }
    }

    fn count(&self, key: &Key) -> Option<Said> {
        let mut said = lock(&self.said);
        let entry = said.get_mut(key)?;
        entry.count += 1;
        Some(entry.clone())
    }

    fn remember(&self, key: Key, name: String) {
        let mut said = lock(&self.said);
        if said.len() >= REMEMBERED {
            said.clear();
        }
        said.insert(key, Said { name, count: 1 });
    }
}

fn build(
    type_: &str,
    regarding: ObjectReference,
    reason: &str,
    message: &str,
    component: &str,
    host: &str,
    now: Timestamp,
) -> Event {
    // Unique enough for a name: the time, and a few bits that differ between writers at the same instant. The time
    // leads, since clients show events of the same second in the order of their names.
    let noise = random::number();
    let unique = (now.as_nanosecond() as u64 & !0xfff) | (noise & 0xfff);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{unique:x}", regarding.name.clone().unwrap_or_default())),
            namespace: Some(regarding.namespace.clone().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        involved_object: regarding,
        type_: Some(type_.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(component.to_owned()), host: Some(host.to_owned()) }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(host.to_owned()),
        ..Event::default()
    }
}

fn shorten(message: &str) -> &str {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(shorten("short"), "short");
        let long = "é".repeat(MAX_MESSAGE);
        assert_eq!(shorten(&long).len(), MAX_MESSAGE);
        assert_eq!(shorten(&format!("a{long}")).len(), MAX_MESSAGE - 1);
    }
}
