//! How the cluster's end stands, as its pods and its Services show. Pure.

use std::net::IpAddr;

use causeway_api::{conditions::Reason, names};
use causeway_translate::intercept::world::Stowaway;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Service},
    },
    jiff::Timestamp,
};
use kube::ResourceExt as _;

use super::{OWNER_KIND, desired::entry_name};
use crate::{
    framework::{
        children::{Children, typed},
        finding::Finding,
        kinds::{DEPLOYMENT, SERVICE},
    },
    vlan::fleet::{PodState, deployment_state, pod_state, pods_of},
};

/// How long an image may take to be pulled before that is told.
const PULL_PATIENCE_SECONDS: i64 = 60;

/// What was found of it.
#[derive(Default)]
pub(crate) struct Standing {
    pods: Vec<Pod>,
    deployment: Option<Deployment>,
    /// The Service inside of the cluster.
    pub(crate) service: Option<Service>,
    /// The Service that laptops come by.
    pub(crate) entry: Option<Service>,
}

impl Standing {
    /// Reads the caches.
    pub(crate) fn read(children: &Children, namespace: &str) -> Self {
        let name = names::STOWAWAY;
        let service = |name: &str| children.get(SERVICE, namespace, name).and_then(|object| typed(&object));
        Self {
            pods: pods_of(children, (namespace, OWNER_KIND, name), names::APP_STOWAWAY),
            deployment: children.get(DEPLOYMENT, namespace, name).and_then(|object| typed(&object)),
            service: service(name),
            entry: service(&entry_name()),
        }
    }

    /// Its pods by name, those that go included.
    pub(crate) fn pod_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.pods.iter().map(kube::ResourceExt::name_any).collect();
        names.sort();
        names
    }

    /// The pods that take connections.
    pub(crate) fn serving(&self) -> Vec<Stowaway> {
        let serving = self.pods.iter().filter(|pod| is_ready(pod));
        let mut found: Vec<Stowaway> = serving
            .filter_map(|pod| {
                let address: IpAddr = pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()?;
                Some(Stowaway { name: pod.name_any(), address })
            })
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Why it does not serve yet; none if it does.
    pub(crate) fn trouble(&self, now: Timestamp) -> Option<Finding> {
        if self.pods.iter().any(is_ready) {
            return None;
        }
        let refused = self.deployment.as_ref().and_then(|one| deployment_state(one, 0).refused);
        if let Some(message) = refused {
            let reason =
                if message.contains("forbidden") { Reason::MissingPrivileges } else { Reason::PodsRefused };
            return Some(Finding::no(reason, format!("the cluster does not take the pods: {message}")));
        }
        let pods: Vec<PodState> = self.pods.iter().map(pod_state).filter(|pod| !pod.is_leaving).collect();
        let stuck = pods.iter().find_map(|pod| Some((pod, pod.trouble.as_ref()?)));
        if let Some((pod, trouble)) = stuck {
            let is_pull = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];
            let reason = if is_pull.iter().any(|word| trouble.contains(word)) {
                Reason::ImagePullFailed
            } else {
                Reason::PodsFailing
            };
            return Some(Finding::no(reason, format!("pod {}: {trouble}", pod.name)));
        }
        let slow = pods.iter().find(|pod| {
            pod.starts_since.is_some_and(|since| now.as_second() - since.as_second() > PULL_PATIENCE_SECONDS)
        });
        if let Some(pod) = slow {
            let message = format!(
                "pod {} has its node for more than a minute and has not begun: its image may be slow to pull",
                pod.name
            );
            return Some(Finding::no(Reason::ImagePullFailed, message));
        }
        let message = "the cluster's end of workstations starts";
        Some(Finding::new(causeway_api::conditions::Status::Unknown, Reason::Initializing, message))
    }
}

/// Whether a pod is ready and stays.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_that_takes_its_time_is_told() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "stowaway-1"}, "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"},
        }))
        .unwrap();
        let standing = Standing { pods: vec![pod], ..Standing::default() };
        let after = |time: &str| standing.trouble(time.parse().unwrap()).unwrap();
        assert_eq!(after("2026-01-01T00:00:59Z").reason, Reason::Initializing);
        let slow = after("2026-01-01T00:01:01Z");
        assert_eq!(slow.reason, Reason::ImagePullFailed);
        assert!(slow.message.contains("pod stowaway-1"), "{}", slow.message);
    }
}
