//! How the pods of a carrier stand, as they, their workload and their plan show. Pure.

use causeway_api::{GatewayPlan, GatewayReplica};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    intercepts::stowaway::is_ready,
    vlan::fleet::{PodState, pod_state},
};

/// What was found of a carrier's pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// Pods that are ready and stay.
    pub(crate) ready: Vec<String>,
    /// Whether all of those do what is asked for, by their own word.
    pub(crate) is_current: bool,
    /// Why one does not.
    pub(crate) trouble: Option<String>,
}

impl Standing {
    /// Of these pods, which follow this plan; `version` is what they are asked for.
    pub(crate) fn of<'a>(
        plan: &GatewayPlan,
        version: i64,
        pods: impl Iterator<Item = &'a Pod> + Clone,
    ) -> Self {
        let reports: &[GatewayReplica] = plan.status.as_ref().map_or(&[], |status| &status.replicas);
        let of = |pod: &str| reports.iter().find(|report| report.name == pod);
        let ready: Vec<String> =
            pods.clone().filter(|pod| is_ready(pod)).map(kube::ResourceExt::name_any).collect();
        let is_current = !ready.is_empty()
            && ready.iter().all(|pod| {
                of(pod).is_some_and(|report| report.serving && report.gateway_generation == Some(version))
            });
        let states: Vec<PodState> = pods.map(pod_state).filter(|pod| !pod.is_leaving).collect();
        let said = states.iter().find_map(|pod| {
            let report = of(&pod.name)?;
            let word = report.refused.as_ref().or(report.trouble.as_ref())?;
            Some(format!("pod {}: {word}", pod.name))
        });
        let stuck =
            || states.iter().find_map(|pod| Some(format!("pod {}: {}", pod.name, pod.trouble.as_ref()?)));
        Self { ready, is_current, trouble: said.or_else(stuck) }
    }
}
