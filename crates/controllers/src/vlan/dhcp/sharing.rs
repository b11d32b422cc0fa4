//! A change of how many servers share a range. Each has its part and knows of what it gave itself, so for one lease time after
//! a change nobody gives new clients anything of a part that was another's: until then every lease of the others is over, or
//! was prolonged where its new server hears it. How many there were is told to the pods, in the ConfigMap that also says that
//! the change may be taken into use.

use std::fmt;
use std::time::Duration;

use causeway_api::{DHCPServer, names};
use causeway_translate::dhcp::validate;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::share;
use crate::{
    framework::{children::Children, kinds::DEPLOYMENT},
    vlan::{
        accepted,
        fleet::{pod_state, pods_of},
        proxy::desired::deployment_name,
        server::MOST_REPLICAS,
    },
};

/// How many servers shared the range before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) count: usize,
    lasts: Lasts,
}

/// How long that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    /// So long after the change is through.
    For(Duration),
    Until(Timestamp),
}

impl Sharing {
    /// What pods are told after what they were told, and what they run.
    pub(super) fn next(server: &DHCPServer, children: &Children, now: Timestamp) -> Option<Self> {
        let own = validate(server).ok()?;
        let count = own.servers.len();
        let runs = accepted::kept(server, children).and_then(|kept| validate(&kept).ok());
        if let Some(runs) = runs.filter(|runs| runs.servers.len() != count) {
            let longest = own.lease_time().max(runs.lease_time());
            return Some(Self { count: runs.servers.len(), lasts: Lasts::For(longest) });
        }
        let told = share::entry(server, children, names::SHARED_BEFORE);
        let told = told.and_then(|text| Self::parse(&text)).filter(|told| told.count != count)?;
        match told.lasts {
            Lasts::For(_) if is_going_on(server, count, children) => Some(told),
            Lasts::For(time) => {
                let until = now.checked_add(SignedDuration::try_from(time).ok()?).ok()?;
                Some(Self { lasts: Lasts::Until(until), ..told })
            }
            Lasts::Until(until) => (until > now).then_some(told),
        }
    }

    /// When to look again, should nothing else happen.
    pub(super) fn rest(&self, now: Timestamp) -> Option<Duration> {
        match self.lasts {
            Lasts::For(_) => None,
            Lasts::Until(until) => Duration::try_from(until.duration_since(now)).ok(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (count, kind, time) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let lasts = match kind {
            "for" => Lasts::For(Duration::from_secs(time.parse().ok()?)),
            "until" => Lasts::Until(time.parse().ok()?),
            _ => return None,
        };
        Some(Self { count, lasts })
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lasts {
            Lasts::For(time) => write!(f, "{} for {}", self.count, time.as_secs()),
            Lasts::Until(until) => write!(f, "{} until {until}", self.count),
        }
    }
}

/// Whether a server that is no longer asked for may still run.
fn is_going_on(server: &DHCPServer, count: usize, children: &Children) -> bool {
    let (name, namespace) = (server.name_any(), server.namespace().unwrap_or_default());
    let pods = pods_of(children, (&namespace, "DHCPServer", &name), names::APP_DHCP);
    let has_deployment = (count..MOST_REPLICAS)
        .any(|index| children.get(DEPLOYMENT, &namespace, &deployment_name(&name, index)).is_some());
    has_deployment || pods.iter().any(|pod| pod_state(pod).index >= count)
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::*;
    use crate::framework::kinds::{CONFIG_MAP, POD};

    fn server(replicas: u8) -> DHCPServer {
        serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer",
            "metadata": { "name": "lab", "namespace": "ns", "uid": "u", "generation": replicas },
            "spec": {
                "networkConfig": {
                    "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "serverIP": "192.168.100.2",
                    "additionalServerIPs": ["192.168.100.3"],
                },
                "leaseConfig": {
                    "rangeStart": "192.168.100.50", "rangeEnd": "192.168.100.99",
                    "leaseTime": if replicas == 2 { "2h" } else { "1h" },
                },
                "replicas": replicas,
            },
        }))
        .unwrap()
    }

    /// Caches with what pods run, what they were told before, and a pod of the second server.
    fn cache(runs: Option<u8>, told: Option<&str>, has_second: bool) -> Children {
        let mut data = serde_json::Map::new();
        data.extend(runs.map(|runs| ("accepted.json".to_owned(), accepted::text(&server(runs)).into())));
        data.extend(told.map(|told| ("before".to_owned(), told.into())));
        let map: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "lab-dhcp-config", "namespace": "ns",
                "ownerReferences": [{
                    "apiVersion": "causeway.dev/v1alpha1", "kind": "DHCPServer", "name": "lab", "uid": "u",
                    "controller": true,
                }],
            },
            "data": data,
        }))
        .unwrap();
        let pod: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "lab-2-x", "namespace": "ns", "labels": {
                "app": "dhcp-server", "causeway.dev/owner-kind": "DHCPServer", "causeway.dev/owner-name": "lab",
                "causeway.dev/replica": "2",
            } },
        }))
        .unwrap();
        let pods = if has_second { vec![pod] } else { Vec::new() };
        Children::fixed(&[(CONFIG_MAP, vec![map]), (POD, pods)])
    }

    #[test]
    fn a_part_that_was_anothers_is_left_alone_until_all_its_leases_are_over() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let next = |replicas, children: &Children, now| {
            Sharing::next(&server(replicas), children, at(now)).map(|sharing| sharing.to_string())
        };
        assert_eq!(next(2, &cache(None, None, false), 0), None, "a new one");
        assert_eq!(next(2, &cache(Some(2), None, true), 0), None, "nothing has changed");
        // One is left of two: by the longer of both lease times, once the other is gone.
        let held = "2 for 7200";
        assert_eq!(next(1, &cache(Some(2), None, true), 0).as_deref(), Some(held), "nobody has taken it yet");
        assert_eq!(
            next(1, &cache(Some(1), Some(held), true), 9).as_deref(),
            Some(held),
            "it may still lease"
        );
        let until = next(1, &cache(Some(1), Some(held), false), 10).unwrap();
        assert_eq!(until, format!("2 until {}", at(7210)));
        assert_eq!(next(1, &cache(Some(1), Some(&until), false), 7209).as_deref(), Some(&*until));
        let rest = Sharing::parse(&until).unwrap().rest(at(7000));
        assert_eq!(rest, Some(Duration::from_secs(210)));
        assert_eq!(next(1, &cache(Some(1), Some(&until), false), 7210), None);
        // It comes back meanwhile, or the change is taken back.
        assert_eq!(next(2, &cache(Some(1), Some(&until), false), 20).as_deref(), Some("1 for 7200"));
        assert_eq!(next(2, &cache(Some(2), Some(held), true), 20), None);
        // A second one has to hear of what the first has given of its part.
        let joined = next(2, &cache(Some(2), Some("1 for 3600"), true), 0).unwrap();
        assert_eq!(joined, format!("1 until {}", at(3600)));
    }
}
