//! What the caches know of a proxy's surroundings: its Deployments, their pods and its Service.

use std::sync::Arc;

use causeway_api::{ProxyServer, ReplicaStatus, SupplyStatus, names};
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt, api::DynamicObject};

use super::desired::{account_name, deployment_name};
use crate::{
    framework::{
        apply::{Action, Owner, Report},
        children::{Children, controller_uid, typed},
        kinds::{DEPLOYMENT, SERVICE, SERVICE_ACCOUNT},
    },
    vlan::fleet::{
        DeploymentState, Fleet, PodState, check_state, deployment_state, image_check::CheckState, pod_state,
        pods_of, replica::has_served,
    },
};

/// The most replicas that a spec may ask for.
const MOST_REPLICAS: usize = 16;

/// What is known of a proxy's surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    /// The Deployments that are there.
    pub(crate) deployments: Vec<DeploymentState>,
    /// The pods that are there.
    pub(crate) pods: Vec<PodState>,
    /// The pods that find out whether images can be had.
    pub(crate) checks: Vec<CheckState>,
    /// The uid of the proxies' account, once it is there.
    pub(crate) account: Option<String>,
    /// What those pods, and no others, say of themselves.
    pub(crate) reports: Vec<ReplicaStatus>,
    /// The Service's address.
    pub(crate) service_ip: Option<String>,
    /// What the proxies are supplied with.
    pub(crate) supply: SupplyStatus,
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
pub(crate) fn observe(proxy: &ProxyServer, owner: &Owner, children: &Children, applied: &Report) -> Observed {
    let name = proxy.name_any();
    let namespace = proxy.namespace().unwrap_or_default();
    let child = |kind, name: &str| -> Option<Arc<DynamicObject>> {
        if let Some(Ok(Action::Applied(object))) = applied.of(kind, name) {
            return Some(object.clone());
        }
        children.get(kind, &namespace, name).filter(|child| controller_uid(&**child) == Some(owner.uid()))
    };
    let deployments = (0..MOST_REPLICAS)
        .filter_map(|index| {
            let found = child(DEPLOYMENT, &deployment_name(&name, index))?;
            typed(&found).map(|deployment| deployment_state(&deployment, index))
        })
        .collect();
    let service: Option<Service> = child(SERVICE, &name).and_then(|service| typed(&service));
    let of_app = |app: &str| pods_of(children, (&namespace, "ProxyServer", &name), app);
    let pods: Vec<PodState> = of_app(names::APP_PROXY).iter().map(pod_state).collect();
    let checks = of_app(names::APP_IMAGE_CHECK).iter().map(check_state).collect();
    let reported = proxy.status.as_ref().map_or(&[][..], |status| &status.replicas);
    let reports =
        reported.iter().filter(|report| pods.iter().any(|pod| pod.name == report.name)).cloned().collect();
    Observed {
        deployments,
        pods,
        checks,
        account: child(SERVICE_ACCOUNT, &account_name(&name)).and_then(|account| account.uid()),
        reports,
        service_ip: service
            .and_then(|service| service.spec?.cluster_ip)
            .filter(|address| address != "None" && !address.is_empty()),
        supply: proxy.status.as_ref().and_then(|status| status.supply.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
