//! The `Workstation` of this machine: made, or found again, and how it stands.

use std::fmt;
use std::time::Duration;

use anyhow::{anyhow, bail};
use causeway_api::conditions::{self, ConditionType};
use causeway_api::{Workstation, WorkstationSpec};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::sleep;

use super::naming;
use crate::parts::refusal;

/// Who writes Workstations on the command line.
const MANAGER: &str = "causeway-connect";
/// How often it is tried while others write, too.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// What the Workstation has to be.
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    pub(super) public_key: String,
    pub(super) certificate_request: String,
    pub(super) ttl: Option<String>,
    pub(super) take_over: bool,
}

/// How it came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    New,
    Found,
    Changed,
    TakenOver,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "was made",
            Self::Found => "is there",
            Self::Changed => "was changed",
            Self::TakenOver => "is this machine's now",
        })
    }
}

/// Makes it, or finds that it is this machine's.
///
/// # Errors
/// When it is another machine's, or the API server refuses it; the text says what to do.
pub(super) async fn apply(
    api: &Api<Workstation>,
    wanted: &Wanted<'_>,
) -> anyhow::Result<(Workstation, Made)> {
    for _ in 0..TRIES {
        match apply_once(api, wanted).await? {
            Some(applied) => return Ok(applied),
            // Somebody was faster, such as the operator: what is there now is looked at again.
            None => sleep(PAUSE).await,
        }
    }
    bail!("Workstation {} changes all the time: see who writes it", wanted.name)
}

/// The same; none if somebody else has changed it meanwhile.
async fn apply_once(
    api: &Api<Workstation>,
    wanted: &Wanted<'_>,
) -> anyhow::Result<Option<(Workstation, Made)>> {
    let Some(there) = api.get_opt(wanted.name).await.map_err(refused)? else {
        return create(api, wanted).await;
    };
    if there.metadata.deletion_timestamp.is_some() {
        bail!("Workstation {} is just being removed: try again in a moment", wanted.name);
    }
    let is_ours = there.spec.public_key == wanted.public_key;
    if !is_ours && !wanted.take_over {
        let connections =
            there.status.as_ref().map(|status| status.connections.as_slice()).unwrap_or_default();
        let from = connections.first().map(|one| format!(", which is connected from {}", one.from));
        let owner = there.spec.display_name.clone().unwrap_or_else(|| "somebody".to_owned());
        bail!(
            "Workstation {} is another machine's ({owner}{}): choose another name with --name, or make it this machine's \
             with --take-over",
            wanted.name,
            from.unwrap_or_default()
        );
    }
    // The request holds no more than the key; another one for the same key is as good.
    let is_same = is_ours
        && there.spec.certificate_request.is_some()
        && (wanted.ttl.is_none() || there.spec.ttl == wanted.ttl);
    if is_same {
        return Ok(Some((there, Made::Found)));
    }
    let mut spec = json!({
        "publicKey": wanted.public_key,
        "certificateRequest": wanted.certificate_request,
        "displayName": naming::display(),
    });
    if let Some(ttl) = &wanted.ttl {
        spec["ttl"] = json!(ttl);
    }
    let patch = json!({"metadata": {"resourceVersion": there.resource_version()}, "spec": spec});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let made = if is_ours { Made::Changed } else { Made::TakenOver };
    settle(api.patch(wanted.name, &params, &Patch::Merge(patch)).await, made)
}

fn settle(written: kube::Result<Workstation>, made: Made) -> anyhow::Result<Option<(Workstation, Made)>> {
    match written {
        Ok(workstation) => Ok(Some((workstation, made))),
        Err(error) if refusal::is_conflict(&error) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

async fn create(api: &Api<Workstation>, wanted: &Wanted<'_>) -> anyhow::Result<Option<(Workstation, Made)>> {
    let spec = WorkstationSpec {
        public_key: wanted.public_key.clone(),
        certificate_request: Some(wanted.certificate_request.clone()),
        display_name: Some(naming::display()),
        ttl: wanted.ttl.clone(),
    };
    let metadata = ObjectMeta { name: Some(wanted.name.to_owned()), ..ObjectMeta::default() };
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    settle(api.create(&params, &Workstation { metadata, spec, status: None }).await, Made::New)
}

fn refused(error: kube::Error) -> anyhow::Error {
    if matches!(&error, kube::Error::Api(status) if status.code == 404 && status.message.contains("could not find"))
    {
        return anyhow!(
            "this cluster does not know Workstations; install Causeway's definitions (deploy/crds) and operator"
        );
    }
    anyhow!("can't make this machine a Workstation: {}", refusal::advice(&error))
}

/// How it stands with the operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its key is signed.
    Signed,
    /// A person must change something first.
    Refused(String),
    /// What is waited for.
    Waiting(String),
}

impl Standing {
    pub(super) fn of(workstation: &Workstation) -> Self {
        let generation = workstation.metadata.generation.unwrap_or_default();
        let status = workstation.status.as_ref();
        let Some(status) = status.filter(|status| status.observed_generation >= Some(generation)) else {
            return Self::Waiting(
                "no operator has looked at the Workstation yet: is one at work?".to_owned(),
            );
        };
        let told = |kind| {
            let found = conditions::find(&status.conditions, kind)?;
            (found.status == "False").then(|| format!("{}: {}", found.reason, found.message))
        };
        let is_wrong = conditions::find(&status.conditions, ConditionType::Ready)
            .is_some_and(|ready| matches!(ready.reason.as_str(), "InvalidSpec" | "Conflict"));
        let wrong = told(ConditionType::Accepted).or_else(|| told(ConditionType::Ready).filter(|_| is_wrong));
        if let Some(why) = wrong {
            return Self::Refused(why);
        }
        if status.certificate.is_some() && status.authority.is_some() {
            return Self::Signed;
        }
        let ready = told(ConditionType::Ready);
        Self::Waiting(
            ready.unwrap_or_else(|| "the operator has not signed this machine's key yet".to_owned()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_workstation_stands() {
        let standing = |status: serde_json::Value| {
            let object = json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation",
                "metadata": {"name": "me", "generation": 1}, "spec": {"publicKey": "x"}, "status": status});
            Standing::of(&serde_json::from_value(object).unwrap())
        };
        let condition = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "False", "reason": reason, "message": "told",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        assert!(matches!(standing(json!(null)), Standing::Waiting(what) if what.contains("no operator")));
        for kind in ["Accepted", "Ready"] {
            let refused =
                standing(json!({"observedGeneration": 1, "conditions": [condition(kind, "Conflict")]}));
            assert_eq!(refused, Standing::Refused("Conflict: told".to_owned()), "{kind}");
        }
        let waiting =
            standing(json!({"observedGeneration": 1, "conditions": [condition("Ready", "PodsStarting")]}));
        assert_eq!(waiting, Standing::Waiting("PodsStarting: told".to_owned()));
        let signed = standing(json!({"observedGeneration": 1, "certificate": "c", "authority": "a"}));
        assert_eq!(signed, Standing::Signed);
    }
}
