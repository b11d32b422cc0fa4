//! Events (events.k8s.io/v1) about objects: what changed, for people. The same text about the same object within a few
//! minutes becomes a series with a count and not another Event. Losing one is never a reason to fail a reconcile.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use causeway_base::lock::lock;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;

use crate::framework::report;

/// An equal Event after this long is news again.
const SERIES_WINDOW: Duration = Duration::from_mins(6);

/// Whether somebody should act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    /// Things go their way.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    /// Whether somebody should act.
    pub(crate) severity: Severity,
    /// Machine-readable cause, in CamelCase.
    pub(crate) reason: String,
    /// What the controller was doing, in CamelCase.
    pub(crate) action: &'static str,
    /// The text; cut at the API's limit when published.
    pub(crate) text: String,
}

impl Note {
    /// That a condition moved: good news under the condition's name, bad news under its reason.
    pub(crate) fn moved(condition: &Condition, is_good: bool) -> Self {
        Self {
            severity: if is_good { Severity::Normal } else { Severity::Warning },
            reason: if is_good { condition.type_.clone() } else { condition.reason.clone() },
            action: "Reconcile",
            text: condition.message.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    count: i32,
    last: Instant,
}

/// Publishes Events on behalf of one controller.
pub(crate) struct Recorder {
    client: Client,
    controller: String,
    instance: String,
    recent: Mutex<HashMap<(String, Note), Series>>,
}

impl Recorder {
    /// A recorder that reports as `controller`, running as `instance` (this replica).
    pub(crate) fn new(client: Client, controller: &str, instance: &str) -> Self {
        Self {
            client,
            controller: controller.to_owned(),
            // The API's limit for this field.
            instance: report::cut(instance, 128),
            recent: Mutex::default(),
        }
    }

    /// Publishes `note` about `object`; failures are logged.
    pub(crate) async fn publish(&self, object: &ObjectReference, note: Note) {
        let note = Note { text: report::cut(&note.text, report::NOTE_LIMIT), ..note };
        if let Err(error) = self.try_publish(object, &note).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                controller = self.controller,
                reason = note.reason,
                error,
                "failed to publish an Event"
            );
        }
    }

    async fn try_publish(&self, object: &ObjectReference, note: &Note) -> Result<(), kube::Error> {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        let key = (object.uid.clone().unwrap_or_default(), note.clone());
        if let Some(series) = self.continued(&key) {
            let body =
                json!({"series": {"count": series.count, "lastObservedTime": MicroTime(Timestamp::now())}});
            match api.patch(&series.name, &PatchParams::default(), &Patch::Merge(&body)).await {
                // The API server forgets Events after a while: tell it anew.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => return other.map(drop),
            }
        }
        let event = self.build(object, note, Timestamp::now());
        let name = event.metadata.name.clone().unwrap_or_default();
        api.create(&PostParams::default(), &event).await?;
        lock(&self.recent).insert(key, Series { name, count: 1, last: Instant::now() });
        Ok(())
    }

    /// Counts one more of a recent equal Event, if there is one; forgets old ones.
    fn continued(&self, key: &(String, Note)) -> Option<Series> {
        let now = Instant::now();
        let mut recent = lock(&self.recent);
        recent.retain(|_, series| now.duration_since(series.last) < SERIES_WINDOW);
        let series = recent.get_mut(key)?;
        series.count += 1;
        series.last = now;
        Some(series.clone())
    }

    fn build(&self, object: &ObjectReference, note: &Note, now: Timestamp) -> Event {
        let subject = object.name.as_deref().unwrap_or(&self.controller);
        Event {
            metadata: ObjectMeta {
                // The nanoseconds keep names apart; the object's name is cut so that both fit a resource name.
                name: Some(format!("{}.{:x}", &subject[..subject.len().min(230)], now.as_nanosecond())),
                namespace: Some(object.namespace.clone().unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(format!("{:?}", note.severity)),
            reason: Some(report::cut(&note.reason, 128)),
            action: Some(note.action.to_owned()),
            note: Some(note.text.clone()),
            regarding: Some(object.clone()),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            series: None::<EventSeries>,
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests;
