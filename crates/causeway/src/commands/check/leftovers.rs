//! Half an uninstall: what waits for an operator that is gone, and what refuses requests for want of it.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use super::Line;
use super::definitions::Known;
use crate::parts::installation::{OPERATOR, resource_of};

const SECTION: &str = "leftovers";
/// How many objects are named.
const NAMED: usize = 5;

/// `before` an installation, which brings definitions and policies along.
pub(super) async fn lines(client: &Client, namespace: &str, known: &Known, before: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    lines.extend(policies_without_kinds(client, known, before).await);
    lines.extend(waiting(client, namespace, before).await);
    if lines.is_empty() {
        lines.push(Line::ok(SECTION, "nothing is left of an earlier installation"));
    }
    lines
}

/// The kind that a policy of ours compares with, if the policy refuses all that it looks at where that kind is gone. Those of the
/// first release do; later ones let everything pass then.
fn needs(policy: &ValidatingAdmissionPolicy) -> Option<&str> {
    let spec = policy.spec.as_ref()?;
    let is_ours = policy.metadata.name.as_deref().is_some_and(|name| name.starts_with("causeway"));
    let lets_pass = spec.failure_policy.as_deref() == Some("Ignore");
    spec.param_kind.as_ref().filter(|_| is_ours && !lets_pass)?.kind.as_deref()
}

async fn policies_without_kinds(client: &Client, known: &Known, before: bool) -> Vec<Line> {
    let api: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let Ok(policies) = api.list(&ListParams::default()).await else { return Vec::new() };
    let mut lines = Vec::new();
    for policy in policies {
        let Some(kind) = needs(&policy) else { continue };
        let Some(crd) = causeway_api::crds().into_iter().find(|crd| crd.spec.names.kind == kind) else {
            continue;
        };
        if !known.is_seen() || known.get(&crd.name_any()).is_some() {
            continue;
        }
        let name = policy.name_any();
        let what = format!(
            "the admission policy {name} asks for {kind}, which the cluster does not know: it refuses every change of routes"
        );
        lines.push(if before {
            Line::warn(
                SECTION,
                what,
                "an installation brings the definition, and a policy that lets them pass",
            )
        } else {
            let cure = format!("causeway crds --apply, or kubectl delete validatingadmissionpolicy {name}");
            Line::fail(SECTION, what, cure)
        });
    }
    lines
}

/// Objects that are being deleted while nobody is there who would let them go.
async fn waiting(client: &Client, namespace: &str, before: bool) -> Vec<Line> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let runs =
        |one: &Deployment| one.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0) > 0;
    match api.get_opt(OPERATOR).await {
        Ok(operator) if operator.as_ref().is_some_and(runs) => return Vec::new(),
        Ok(_) => {}
        Err(error) => return vec![Line::unseen(SECTION, "the operator can't be looked at", &error)],
    }
    let mut stuck = Vec::new();
    for crd in causeway_api::crds() {
        let resource = resource_of(&crd);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let Ok(list) = api.list_metadata(&ListParams::default()).await else { continue };
        let held = list.items.into_iter().filter(|one| one.metadata.deletion_timestamp.is_some());
        stuck.extend(held.map(|one| {
            format!("{} {}/{}", resource.kind, one.namespace().unwrap_or_default(), one.name_any())
        }));
    }
    if stuck.is_empty() {
        return Vec::new();
    }
    let more = stuck.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    stuck.truncate(NAMED);
    let what =
        format!("no operator runs that would let go of what is being deleted: {}{more}", stuck.join(", "));
    vec![if before {
        Line::warn(SECTION, what, "the operator that is installed cleans up")
    } else {
        let cure = "start the operator (`causeway install`) and it cleans up; or let go with `causeway uninstall --force --all --yes`";
        Line::fail(SECTION, what, cure)
    }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_policy_of_ours_that_fails_closed_refuses_without_its_kind() {
        for (name, failure_policy, kind) in [
            ("causeway-hostnames", json!("Ignore"), None),
            ("causeway-hostnames", json!("Fail"), Some("HostnameGrant")),
            // What the API server takes it for.
            ("causeway-hostnames", json!(null), Some("HostnameGrant")),
            ("somebodys", json!("Fail"), None),
        ] {
            let policy = json!({
                "metadata": {"name": name},
                "spec": {
                    "failurePolicy": failure_policy,
                    "paramKind": {"apiVersion": "causeway.dev/v1alpha1", "kind": "HostnameGrant"},
                },
            });
            let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).unwrap();
            assert_eq!(needs(&policy), kind, "{name} {failure_policy}");
        }
    }
}
