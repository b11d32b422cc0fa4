//! Writes the status subresource of one kind by server-side apply, only when it changed, and turns changes of
//! conditions into Events. Remembers what it wrote until the watch has caught up, so that a reconcile that starts from
//! a stale copy neither writes again nor loses a transition time.

use std::{collections::HashMap, sync::Mutex};

use causeway_api::conditions::ConditionType;
use causeway_base::lock::lock;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::object::HasStatus,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::framework::{
    error::Error,
    events::{Note, Recorder},
    scope::{Kind, api_of},
};

/// A status that a controller writes beside others, who write theirs.
pub(crate) trait Shared: Default {
    /// The condition types that the controller writes.
    const OWN_CONDITIONS: &'static [ConditionType];

    /// All conditions.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// Drops what others write, but for conditions.
    fn drop_foreign(&mut self) {}

    /// The controller's own part.
    #[must_use]
    fn own_part(mut self) -> Self {
        self.drop_foreign();
        self.conditions_mut()
            .retain(|condition| Self::OWN_CONDITIONS.iter().any(|kind| kind.as_str() == condition.type_));
        self
    }
}

/// The status writer of one controller.
pub(crate) struct Writer<S> {
    client: Client,
    manager: &'static str,
    /// Written statuses that the watch has not shown yet, by uid, with the version that the write made.
    ahead: Mutex<HashMap<String, (u64, S)>>,
}

impl<S: Shared + Clone + PartialEq + Serialize + DeserializeOwned> Writer<S> {
    /// A writer that owns status fields as `manager`.
    pub(crate) fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager, ahead: Mutex::default() }
    }

    /// The newest status known of `object`: its own, or the one written since it was read.
    pub(crate) fn latest<K: HasStatus<Status = S> + Resource>(&self, object: &K) -> Option<S> {
        let mut ahead = lock(&self.ahead);
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        if let Some((version, status)) = ahead.get(uid) {
            if version_of(object).is_some_and(|seen| seen < *version) {
                return Some(status.clone());
            }
            ahead.remove(uid);
        }
        object.status().cloned()
    }

    /// What the controller wrote last, as far as is known: the status that its next one follows.
    pub(crate) fn previous<K: HasStatus<Status = S> + Resource>(&self, object: &K) -> S {
        self.latest(object).unwrap_or_default().own_part()
    }

    /// Writes `next` if it differs from `previous`; true if it was written.
    async fn write<K>(&self, object: &K, previous: Option<&S>, next: &S) -> Result<bool, Error>
    where
        K: HasStatus<Status = S> + Kind + Clone + DeserializeOwned + std::fmt::Debug,
    {
        if previous == Some(next) {
            return Ok(false);
        }
        let name = object.name_any();
        let api = api_of(self.client.clone(), object);
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": name },
            "status": next,
        });
        let written = match api
            .patch_status(&name, &PatchParams::apply(self.manager).force(), &Patch::Apply(&body))
            .await
        {
            Ok(written) => written,
            // The object went away while it was reconciled: nobody is left to read the status.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
            Err(source) => return Err(Error::WriteStatus { source }),
        };
        if let (Some(uid), Some(version)) = (written.uid(), version_of(&written)) {
            let mut ahead = lock(&self.ahead);
            ahead.insert(uid, (version, next.clone()));
        }
        Ok(true)
    }

    /// Writes `next` if it differs from `previous`, and publishes what `notes` finds worth telling of the change.
    pub(crate) async fn report<K>(
        &self,
        object: &K,
        previous: &S,
        next: &S,
        events: &Recorder,
        notes: fn(&S, &S) -> Vec<Note>,
    ) -> Result<(), Error>
    where
        K: HasStatus<Status = S> + Kind + Clone + DeserializeOwned + std::fmt::Debug,
    {
        if self.write(object, Some(previous), next).await? {
            let reference = object.object_ref(&());
            for note in notes(previous, next) {
                events.publish(&reference, note).await;
            }
        }
        Ok(())
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        lock(&self.ahead).remove(uid);
    }
}

/// The time in whole seconds, as conditions carry it.
pub(crate) fn now() -> Time {
    whole_seconds(Timestamp::now())
}

/// `time` without its fraction, as conditions carry it.
pub(crate) fn whole_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn version_of(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

/// The conditions of `next` that say something else than `previous` did: another status or reason, or, while a
/// condition is not true, another message.
pub(crate) fn transitions<'a>(previous: &[Condition], next: &'a [Condition]) -> Vec<&'a Condition> {
    let changed = |condition: &&Condition| match previous.iter().find(|old| old.type_ == condition.type_) {
        None => true,
        Some(old) => {
            let moved = old.status != condition.status || old.reason != condition.reason;
            moved || (condition.status == "False" && old.message != condition.message)
        }
    };
    next.iter().filter(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: Some(1),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn a_transition_is_a_change_that_a_person_would_want_to_hear_of() {
        let ready = condition("True", "Ready", "3 of 3");
        let bad = condition("False", "Invalid", "range");
        for (previous, next, count) in [
            (vec![], ready.clone(), 1),
            (vec![ready.clone()], ready.clone(), 0),
            (vec![ready.clone()], condition("True", "Ready", "2 of 2"), 0),
            (vec![ready.clone()], bad.clone(), 1),
            (vec![bad.clone()], condition("False", "Invalid", "gateway"), 1),
            (vec![bad.clone()], condition("False", "Conflict", "range"), 1),
        ] {
            assert_eq!(
                transitions(&previous, std::slice::from_ref(&next)).len(),
                count,
                "{previous:?} to {next:?}"
            );
        }
    }
}
