//! What the caches know of a server's surroundings: its Deployments, their pods and its Service.

use std::sync::Arc;

use causeway_api::{ServerReplica, names};
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt, api::DynamicObject};

use super::{Server, desired::account_name};
use crate::{
    framework::{
        apply::{Action, Owner, Report},
        children::{Children, controller_uid, typed},
        kinds::{DEPLOYMENT, SERVICE, SERVICE_ACCOUNT},
    },
    vlan::{
        fleet::{
            DeploymentState, Fleet, PodState, check_state, deployment_state, image_check::CheckState,
            pod_state, pods_of, replica::has_served,
        },
        proxy::desired::deployment_name,
    },
};

/// The most replicas that a spec may ask for.
pub(crate) const MOST_REPLICAS: usize = 2;

/// What is known of a server's surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    /// The Deployments that are there.
    pub(crate) deployments: Vec<DeploymentState>,
    /// The pods that are there.
    pub(crate) pods: Vec<PodState>,
    /// The pods that find out whether images can be had.
    pub(crate) checks: Vec<CheckState>,
    /// The uid of the pods' account, once it is there.
    pub(crate) account: Option<String>,
    /// What those pods, and no others, say of themselves.
    pub(crate) reports: Vec<ServerReplica>,
    /// The Service's address.
    pub(crate) service_ip: Option<String>,
}

impl Fleet for Observed {
    fn deployments(&self) -> &[DeploymentState] {
        &self.deployments
    }

    fn pods(&self) -> &[PodState] {
        &self.pods
    }

    fn checks(&self) -> &[CheckState] {
        &self.checks
    }

    fn has_account(&self) -> bool {
        self.account.is_some()
    }

    fn has_served(&self, pod: &str) -> bool {
        has_served(&self.reports, pod)
    }
}

/// Reads the caches and what was applied since they were filled.
pub(crate) fn observe<K: Server>(
    object: &K,
    owner: &Owner,
    children: &Children,
    applied: &Report,
) -> Observed {
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let child = |kind, name: &str| -> Option<Arc<DynamicObject>> {
        if let Some(Ok(Action::Applied(object))) = applied.of(kind, name) {
            return Some(object.clone());
        }
        children.get(kind, &namespace, name).filter(|child| controller_uid(&**child) == Some(owner.uid()))
    };
    let deployments = (0..MOST_REPLICAS).filter_map(|index| {
        let found = child(DEPLOYMENT, &deployment_name(&name, index))?;
        typed(&found).map(|deployment| deployment_state(&deployment, index))
    });
    let service: Option<Service> = child(SERVICE, &name).and_then(|service| typed(&service));
    let kind = K::kind(&());
    let of_app = |app: &str| pods_of(children, (&namespace, &kind, &name), app);
    let pods: Vec<PodState> = of_app(K::APP).iter().map(pod_state).collect();
    let is_there = |report: &&ServerReplica| pods.iter().any(|pod| pod.name == report.name);
    Observed {
        deployments: deployments.collect(),
        checks: of_app(names::APP_IMAGE_CHECK).iter().map(check_state).collect(),
        account: child(SERVICE_ACCOUNT, &account_name(&name, K::ROLE)).and_then(|account| account.uid()),
        reports: object.reports().iter().filter(is_there).cloned().collect(),
        service_ip: service
            .and_then(|service| service.spec?.cluster_ip)
            .filter(|address| address != "None" && !address.is_empty()),
        pods,
    }
}
