//! What the caches know of a proxy's surroundings: its Deployments, their pods and its Service; and the reports of pods
//! that are gone, which nobody else would remove.

use std::sync::Arc;

use causeway_api::{ProxyServer, ReplicaStatus, names};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod, Service},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use super::desired::deployment_name;
use crate::framework::{
    apply::{Action, Owner, Report},
    children::{Children, controller_uid, typed},
    error::Error,
    kinds::{DEPLOYMENT, POD, SERVICE},
};

/// How far a Deployment has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeploymentState {
    /// Its pod is the one that its latest change asks for, and is ready.
    pub(crate) is_available: bool,
    /// How many addresses precede its own in the spec.
    pub(crate) index: usize,
}

/// One pod of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodState {
    /// Its name.
    pub(crate) name: String,
    /// How many addresses precede its own in the spec.
    pub(crate) index: usize,
    /// It is being deleted.
    pub(crate) is_leaving: bool,
    /// Why one of its containers does not run.
    pub(crate) trouble: Option<String>,
}

/// What is known of a proxy's surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    /// The Deployments that are there.
    pub(crate) deployments: Vec<DeploymentState>,
    /// The pods that are there.
    pub(crate) pods: Vec<PodState>,
    /// What those pods, and no others, say of themselves.
    pub(crate) reports: Vec<ReplicaStatus>,
    /// The Service's address.
    pub(crate) service_ip: Option<String>,
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
    let replicas = 1 + proxy.spec.network_config.additional_server_ips.len();
    let deployments = (0..replicas)
        .filter_map(|index| {
            let found = child(DEPLOYMENT, &deployment_name(&name, index))?;
            let deployment: Deployment = typed(&found)?;
            Some(DeploymentState { is_available: is_available(&deployment), index })
        })
        .collect();
    let service: Option<Service> = child(SERVICE, &name).and_then(|service| typed(&service));
    let pods: Vec<PodState> = children
        .labelled(POD, &namespace, (names::LABEL_OWNER_NAME, &name))
        .iter()
        .filter(|pod| pod.labels().get(names::LABEL_APP).is_some_and(|app| app == names::APP_PROXY))
        .filter_map(|pod| typed(pod).map(|pod| pod_state(&pod)))
        .collect();
    let reported = proxy.status.as_ref().map_or(&[][..], |status| &status.replicas);
    let reports =
        reported.iter().filter(|report| pods.iter().any(|pod| pod.name == report.name)).cloned().collect();
    Observed {
        deployments,
        pods,
        reports,
        service_ip: service
            .and_then(|service| service.spec?.cluster_ip)
            .filter(|address| address != "None" && !address.is_empty()),
    }
}

fn is_available(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    status.observed_generation >= deployment.metadata.generation
        && status.updated_replicas.unwrap_or_default() >= 1
        && status.available_replicas.unwrap_or_default() >= 1
}

fn pod_state(pod: &Pod) -> PodState {
    let replica = pod.labels().get(names::LABEL_REPLICA).and_then(|text| text.parse::<usize>().ok());
    let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    PodState {
        name: pod.name_any(),
        index: replica.unwrap_or(1).saturating_sub(1),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        trouble: containers.find_map(container_trouble).or_else(|| unschedulable(pod)),
    }
}

/// Why a container does not run, unless it just starts.
fn container_trouble(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let (reason, message) = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) => (waiting.reason.clone(), waiting.message.clone()),
        (None, Some(ended)) if ended.exit_code != 0 => {
            (ended.reason.clone(), ended.message.clone().or(Some(format!("exit code {}", ended.exit_code))))
        }
        _ => return None,
    };
    let reason = reason.filter(|reason| reason != "ContainerCreating" && reason != "PodInitializing")?;
    let detail = message.map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("container {} is in {reason}{detail}", status.name))
}

fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    let reason = scheduled.reason.as_deref().filter(|_| scheduled.status == "False")?;
    Some(format!("{reason}: {}", scheduled.message.as_deref().unwrap_or_default()))
}

/// Removes what pods that no longer exist have reported.
pub(crate) struct Reports {
    client: Client,
}

impl Reports {
    /// One that reads and writes with `client`.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Removes the reports of pods that neither the caches nor the API server know.
    pub(crate) async fn remove_stale(&self, proxy: &ProxyServer, observed: &Observed) -> Result<(), Error> {
        let namespace = proxy.namespace().unwrap_or_default();
        let reported = proxy.status.as_ref().map_or(&[][..], |status| &status.replicas);
        for report in reported {
            if observed.pods.iter().any(|pod| pod.name == report.name) {
                continue;
            }
            // The caches may be behind a pod that has just begun to report.
            let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
            let name = format!("{namespace}/{}", report.name);
            let pod = pods.get_metadata_opt(&report.name).await;
            if pod.map_err(|source| Error::LookUpPod { name, source })?.is_none() {
                self.remove(proxy, &report.name).await?;
            }
        }
        Ok(())
    }

    /// Gives up, in the pod's place, everything that it had written.
    async fn remove(&self, proxy: &ProxyServer, pod: &str) -> Result<(), Error> {
        let name = proxy.name_any();
        let api = Api::<ProxyServer>::namespaced(self.client.clone(), &proxy.namespace().unwrap_or_default());
        let body = json!({
            "apiVersion": ProxyServer::api_version(&()),
            "kind": ProxyServer::kind(&()),
            "metadata": { "name": name },
            "status": {},
        });
        let params = PatchParams::apply(&names::report_manager(pod)).force();
        match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }
}

#[cfg(test)]
mod tests;
