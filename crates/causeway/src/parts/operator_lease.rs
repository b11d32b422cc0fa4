//! Whether an operator leads: what a status says is only as true as somebody keeps it true. On one machine there is no
//! election, and no Lease, and neither is where an operator is told to lead without one.

use std::time::Duration;

use causeway_api::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, Client};

use super::{installation::OPERATOR, refusal};

/// How long a lease may be over before that is told: the next leader needs a moment.
const GRACE: Duration = Duration::from_secs(5);

/// Why nobody keeps the status of objects true; none if somebody does, or if it can't be known.
pub(crate) async fn trouble(client: &Client, namespace: &str) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = api.get_opt(names::LEADER_LEASE).await.ok()??;
    let why = lapsed(&lease, Timestamp::now())?;
    // The Lease may be of a time when there was an election.
    if leads_alone(client, namespace).await {
        return None;
    }
    Some(format!(
        "no operator is at work: {why}; see `kubectl -n {namespace} get pods` and what the operator logs"
    ))
}

/// Why nobody would put back what was changed: unlike [`trouble`] this takes what can't be known for a no.
pub(crate) async fn nobody_leads(client: &Client, namespace: &str) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match api.get_opt(names::LEADER_LEASE).await {
        Ok(Some(_)) => trouble(client, namespace).await,
        Ok(None) if leads_alone(client, namespace).await => None,
        Ok(None) => Some(format!("no operator has ever led in namespace {namespace}")),
        Err(error) => Some(format!("whether an operator leads can't be seen: {}", refusal::words(&error))),
    }
}

/// Whether the operator takes part in no election, and is ready.
async fn leads_alone(client: &Client, namespace: &str) -> bool {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    matches!(api.get_opt(OPERATOR).await, Ok(Some(operator)) if is_alone_and_ready(&operator))
}

fn is_alone_and_ready(operator: &Deployment) -> bool {
    let ready = operator.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let pod = operator.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut arguments =
        pod.into_iter().flat_map(|pod| &pod.containers).flat_map(|one| one.args.iter().flatten());
    ready > 0 && arguments.any(|argument| argument == "--no-leader-election")
}

fn lapsed(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let Some(holder) = spec.holder_identity.as_ref().filter(|holder| !holder.is_empty()) else {
        return Some("the last one has given its lease up".to_owned());
    };
    let renewed = spec.renew_time.as_ref()?.0;
    let term = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15));
    let silent = Duration::try_from(now.duration_since(renewed)).unwrap_or_default();
    (silent > term + GRACE).then(|| format!("{holder} has not renewed its lease for {} s", silent.as_secs()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_leads_without_an_election_is_known_by_his_arguments() {
        for (arguments, ready, leads) in [
            (json!(["operator", "--no-leader-election"]), 1, true),
            (json!(["operator", "--no-leader-election"]), 0, false),
            (json!(["operator"]), 2, false),
        ] {
            let pod =
                json!({"metadata": {}, "spec": {"containers": [{"name": "operator", "args": arguments}]}});
            let operator = json!({
                "metadata": {}, "spec": {"selector": {}, "template": pod}, "status": {"readyReplicas": ready},
            });
            assert_eq!(is_alone_and_ready(&serde_json::from_value(operator).unwrap()), leads, "{arguments}");
        }
    }

    #[test]
    fn a_lease_that_is_over_or_given_up_is_nobodys() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (holder, renewed, says) in [
            ("a", "2026-01-01T00:00:55.000000Z", None),
            ("a", "2026-01-01T00:00:20.000000Z", Some("a has not renewed its lease for 40 s")),
            ("", "2026-01-01T00:00:59.000000Z", Some("the last one has given its lease up")),
        ] {
            let lease = json!({"metadata": {}, "spec": {
                "holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15,
            }});
            assert_eq!(lapsed(&serde_json::from_value(lease).unwrap(), now).as_deref(), says, "{holder}");
        }
    }
}
