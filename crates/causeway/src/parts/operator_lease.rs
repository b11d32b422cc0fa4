//! Whether an operator leads: what a status says is only as true as somebody keeps it true. On one machine there is no
//! election, and no Lease.

use std::time::Duration;

use causeway_api::names;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, Client};

/// How long a lease may be over before that is told: the next leader needs a moment.
const GRACE: Duration = Duration::from_secs(5);

/// Why nobody keeps the status of objects true; none if somebody does, or if it can't be known.
pub(crate) async fn trouble(client: &Client, namespace: &str) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = api.get_opt(names::LEADER_LEASE).await.ok()??;
    let why = lapsed(&lease, Timestamp::now())?;
    Some(format!(
        "no operator is at work: {why}; see `kubectl -n {namespace} get pods` and what the operator logs"
    ))
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
