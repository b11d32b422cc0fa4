//! The certificates of a Gateway's own listeners: whether each fits its key, and how long it counts.

use std::collections::BTreeSet;

use causeway_ir::tls::Age;
use causeway_translate::gateway::certificates::KeyPair;
use causeway_translate::gateway::kinds::{Gateway, ObjectRef};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};

use crate::commands::doctor::finding::Finding;

const DAY: i64 = 24 * 60 * 60;

pub(super) async fn examine(client: &Client, gateway: &Gateway) -> Vec<Finding> {
    let refs = gateway.spec.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let refs = refs.flat_map(|tls| &tls.certificate_refs).map(|named| {
        ObjectRef::new(named.namespace.as_ref().unwrap_or(&gateway.meta.at.namespace), &named.name)
    });
    let mut found = Vec::new();
    for at in refs.collect::<BTreeSet<_>>() {
        match Api::<Secret>::namespaced(client.clone(), &at.namespace).get_opt(&at.name).await {
            Ok(Some(secret)) => found.push(judge(&at, &KeyPair::read(&secret), Timestamp::now().as_second())),
            // The listener says that it is missing.
            Ok(None) => {}
            Err(_) => {
                found.push(Finding::unchecked(format!("you may not read the certificate in Secret {at}")));
            }
        }
    }
    found
}

fn judge(at: &ObjectRef, pair: &KeyPair, now: i64) -> Finding {
    let renew =
        format!("write a new one into Secret {at}; no pod is restarted for that, and no connection is cut");
    let validity = match &pair.checked {
        Ok(validity) => validity,
        Err(problem) => return Finding::bad(format!("Secret {at} {problem}"), renew),
    };
    let days = (validity.expires - now) / DAY;
    match validity.at(now) {
        Age::Expired => Finding::bad(format!("certificate {at} has expired, {} days ago", -days), renew),
        Age::Early => Finding::bad(
            format!("certificate {at} does not count yet, for {} s", validity.begins - now),
            "see whether the clocks are right",
        ),
        Age::Ending => Finding::bad(format!("certificate {at} expires soon: {days} days are left"), renew),
        Age::Good => Finding::good(format!("certificate {at} is valid, with {days} days left")),
    }
}

#[cfg(test)]
mod tests {
    use causeway_ir::tls::Validity;

    use super::*;

    #[test]
    fn time_decides() {
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let begins = begin.as_second();
        let validity = Validity { begins, expires: begins + 100 * DAY };
        let pair = KeyPair { certificate: Vec::new(), key: Vec::new(), checked: Ok(validity) };
        let at = ObjectRef::new("shop", "site");
        let on = |day: i64| format!("{:?}", judge(&at, &pair, begins + day * DAY));
        for (day, said) in [
            (-1, "does not count yet"),
            (0, "is valid, with 100 days left"),
            (86, "is valid, with 14 days left"),
            (91, "expires soon: 9 days are left"),
            (103, "has expired, 3 days ago"),
        ] {
            assert!(on(day).contains(said), "{day}: {}", on(day));
        }
    }
}
