//! The life of a request as its maker sees it: until traffic comes here, and until it is gone.

use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::conditions::{self, ConditionType};
use causeway_api::{InterceptRequest, InterceptState};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};

use crate::parts::follow::{self, Verdict};
use crate::parts::progress::Detail;
use crate::parts::refusal;

/// How long a target may take to be restored.
const RESTORED: Duration = Duration::from_mins(2);

/// Waits until traffic comes here.
///
/// # Errors
/// When the request is refused or can't become active, in the words of its conditions.
pub(crate) async fn active(
    api: &Api<InterceptRequest>,
    name: &str,
    limit: Duration,
    detail: &Detail,
) -> anyhow::Result<InterceptRequest> {
    let look = |request: Option<&InterceptRequest>| {
        let Some(request) = request else { bail!("intercept {name} was deleted while it was waited for") };
        let step = Step::of(request);
        match step {
            Step::Active => Ok(Verdict::There(request.clone())),
            Step::Refused(why) => bail!("intercept {name} is refused: {why}"),
            Step::Waiting(what) => {
                detail.say(&what);
                Ok(Verdict::NotYet(format!("intercept {name} is not active: {what}")))
            }
        }
    };
    follow::until(api, name, limit, look).await
}

/// How far a request is.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Active,
    /// A person must change something first.
    Refused(String),
    /// What is being waited for.
    Waiting(String),
}

impl Step {
    fn of(request: &InterceptRequest) -> Self {
        let generation = request.metadata.generation.unwrap_or_default();
        let Some(status) =
            request.status.as_ref().filter(|status| status.observed_generation >= Some(generation))
        else {
            return Self::Waiting("the operator has not looked at it yet".to_owned());
        };
        let find = |kind| conditions::find(&status.conditions, kind);
        let why = |kind| find(kind).map(|found| format!("{}: {}", found.reason, found.message));
        let is_false = |kind| find(kind).is_some_and(|found| found.status == "False");
        if is_false(ConditionType::Accepted) {
            return Self::Refused(why(ConditionType::Accepted).unwrap_or_default());
        }
        if status.state == Some(InterceptState::Error) {
            let why = why(ConditionType::Ready).or_else(|| why(ConditionType::Installed));
            return Self::Refused(why.unwrap_or_else(|| "its state is Error".to_owned()));
        }
        if status.active {
            return Self::Active;
        }
        let open = [ConditionType::Installed, ConditionType::Connected, ConditionType::Ready];
        let open = open.into_iter().find(|kind| is_false(*kind)).and_then(why);
        Self::Waiting(open.unwrap_or_else(|| "the target is being taken over".to_owned()))
    }
}

/// Deletes a request and waits until its target is restored; false if there was none.
pub(crate) async fn end(api: &Api<InterceptRequest>, name: &str, detail: &Detail) -> anyhow::Result<bool> {
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
        Err(error) => bail!("can't end intercept {name}: {}", refusal::advice(&error)),
    }
    let mut uid = None;
    let look = |request: Option<&InterceptRequest>| {
        let Some(request) = request else { return Ok(Verdict::There(())) };
        // One of the same name that somebody made since is not ours.
        let first = uid.get_or_insert_with(|| request.uid());
        if *first != request.uid() {
            return Ok(Verdict::There(()));
        }
        let status = request.status.as_ref();
        let ready = status.and_then(|status| conditions::find(&status.conditions, ConditionType::Ready));
        let what =
            ready.map_or_else(|| "its target is being restored".to_owned(), |ready| ready.message.clone());
        detail.say(&what);
        Ok(Verdict::NotYet(what))
    };
    follow::until(api, name, RESTORED, look)
        .await
        .with_context(|| format!("intercept {name} is to be removed, but its target is not restored yet"))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(status: Value) -> Step {
        let request = json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest",
            "metadata": {"name": "x", "generation": 2}, "spec": {"target": "deployment/web", "targetContainerPort": 80,
            "workstation": "me", "destinationPort": 8080}, "status": status});
        Step::of(&serde_json::from_value(request).unwrap())
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "told",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn what_a_request_waits_for_is_told() {
        let not_seen = Step::Waiting("the operator has not looked at it yet".to_owned());
        assert_eq!(step(json!(null)), not_seen);
        assert_eq!(step(json!({"observedGeneration": 1, "active": true})), not_seen, "of an earlier spec");
        let accepted = condition("Accepted", "True", "Accepted");
        let waiting = json!({"observedGeneration": 2, "conditions": [accepted, condition("Installed", "False", "PodsStarting"),
            condition("Ready", "False", "NotReady")]});
        assert_eq!(step(waiting), Step::Waiting("PodsStarting: told".to_owned()));
        assert_eq!(
            step(json!({"observedGeneration": 2, "active": true, "conditions": [accepted]})),
            Step::Active
        );
        let refused =
            json!({"observedGeneration": 2, "conditions": [condition("Accepted", "False", "Conflict")]});
        assert_eq!(step(refused), Step::Refused("Conflict: told".to_owned()));
        let error = json!({"observedGeneration": 2, "state": "Error", "conditions": [condition("Ready", "False", "X")]});
        assert_eq!(step(error), Step::Refused("X: told".to_owned()));
    }
}
