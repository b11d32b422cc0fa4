//! The networks of a pod: those that it is attached to, before its first container starts, until its last has ended.

use std::{fs, net::IpAddr, path::PathBuf, time::Duration};

use causeway_base::{Backoff, file, well_known::MACHINE_ADDRESS};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::json;
use tokio::{task::spawn_blocking, time::Instant};

use super::{Timer, Worker};
use crate::{
    network::{self, Interface, NETWORKS, Request, Wanted},
    pod::{image::Entrypoint, tracked::TrackedContainer},
    workload::message,
};

/// A definition that is not there may be about to be made.
const RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
/// The reason of what is said about networks.
pub(super) const REASON: &str = "NetworkNotAttached";

/// How far a pod's networks are.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// All that the pod asks for is there.
    is_settled: bool,
    /// The pod's own namespace, if it has one.
    pub(super) namespace: Option<PathBuf>,
    retry_at: Option<Instant>,
    failures: u32,
}

impl Worker {
    /// Attaches the pod to its networks; false when containers cannot start yet.
    pub(super) async fn ensure_networks(&mut self, timer: &mut Timer) -> bool {
        if self.networks.is_settled && !self.is_cut_off() {
            return true;
        }
        if let Some(retry_at) = self.networks.retry_at.filter(|retry_at| Instant::now() < *retry_at) {
            timer.at(retry_at);
            return false;
        }
        match self.attach().await {
            Ok(namespace) => {
                self.networks = Networks { is_settled: true, namespace, ..Networks::default() };
                self.not_runnable.take_if(|(reason, _)| reason == REASON);
                true
            }
            Err(message) => {
                self.networks.failures = self.networks.failures.saturating_add(1);
                let wait = RETRY.delay(self.networks.failures);
                self.networks.retry_at = Some(Instant::now() + wait);
                timer.after(wait);
                for tracked in self.containers.iter_mut().filter(|tracked| tracked.run.is_none()) {
                    tracked.wait("ContainerCreating", message.clone());
                }
                let said = (REASON.to_owned(), message);
                if self.not_runnable.as_ref() != Some(&said) {
                    self.shared.recorder.warning(self.pod.as_ref(), "FailedCreatePodSandBox", &said.1).await;
                    self.not_runnable = Some(said);
                }
                false
            }
        }
    }

    /// Somebody removed the pod's namespace, and nothing keeps it any more.
    fn is_cut_off(&self) -> bool {
        self.networks.namespace.is_some()
            && !network::is_there(&self.dir.uid)
            && !self.containers.iter().any(TrackedContainer::is_running)
    }

    /// The pod's own namespace with all interfaces in it, made now or by an earlier life of the node.
    async fn attach(&self) -> Result<Option<PathBuf>, String> {
        let requests = network::requests(&self.pod)?;
        if requests.is_empty() {
            return Ok(None);
        }
        let known = fs::read_to_string(self.dir.network_status());
        let status = match known {
            Ok(status) if network::is_there(&self.dir.uid) => status,
            _ => self.set_up(requests).await?,
        };
        self.tell_networks(&status).await?;
        Ok(Some(network::path(&self.dir.uid)))
    }

    async fn set_up(&self, requests: Vec<Request>) -> Result<String, String> {
        self.check_containers()?;
        if self.shared.attached_api.is_none() {
            return Err("attached pods have no way to the API server: another control plane on this machine has its port; \
                        choose another with `causeway up --listen`"
                .to_owned());
        }
        let mut interfaces = Vec::new();
        for request in requests {
            let definition = self.definition(&request).await?;
            interfaces.push(Interface::new(request, definition));
        }
        let IpAddr::V4(address) = self.own_address else {
            return Err("pods of this machine have addresses in IPv4".to_owned());
        };
        let wanted = Wanted {
            uid: self.dir.uid.clone(),
            address,
            machine: MACHINE_ADDRESS,
            interfaces,
            sysctls: sysctls(&self.pod),
        };
        let made =
            spawn_blocking(move || network::set_up(&wanted)).await.map_err(|error| error.to_string())?;
        let status = made.map_err(|error| error.to_string())?.to_string();
        let path = self.dir.network_status();
        file::replace(&path, file::PRIVATE, status.as_bytes())
            .map_err(|error| format!("can't write {}: {error}", path.display()))?;
        Ok(status)
    }

    /// Containers of a runtime are in networks of the runtime.
    fn check_containers(&self) -> Result<(), String> {
        let spec = self.pod.spec.as_ref();
        let mut all =
            spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let other = all.find(|container| {
            Entrypoint::of(&self.shared.config, container.image.as_deref().unwrap_or_default()).is_err()
        });
        match other {
            Some(container) => Err(format!(
                "container {} is run by a container runtime, and attachments ({NETWORKS}) are for Causeway's own image \
                 and for programs of this machine (`causeway up --program`): take the annotation away",
                container.name
            )),
            None => Ok(()),
        }
    }

    async fn definition(&self, request: &Request) -> Result<network::Definition, String> {
        let name = request.definition();
        let kind = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
            "network-attachment-definitions",
        );
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.shared.client.clone(), &request.namespace, &kind);
        let found = api.get_opt(&request.name).await.map_err(|error| {
            format!("NetworkAttachmentDefinition {name} can't be read: {}", message(&error))
        })?;
        let Some(found) = found else {
            return Err(format!(
                "there is no NetworkAttachmentDefinition {name}: create it, or correct the pod's annotation {NETWORKS}"
            ));
        };
        let config = found.data["spec"]["config"].as_str().unwrap_or_default();
        network::parse_definition(config)
            .map_err(|problem| format!("NetworkAttachmentDefinition {name} can't be used: {problem}"))
    }

    /// Writes the pod's annotation.
    async fn tell_networks(&self, status: &str) -> Result<(), String> {
        let told = self.pod.metadata.annotations.as_ref().and_then(|all| all.get(network::STATUS));
        if told.is_some_and(|told| told == status) {
            return Ok(());
        }
        let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), &self.dir.namespace);
        let patch = json!({"metadata": {"uid": self.dir.uid, "annotations": {network::STATUS: status}}});
        let written = pods.patch(&self.dir.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        written
            .map(drop)
            .map_err(|error| format!("the pod's annotation can't be written: {}", message(&error)))
    }

    /// Takes the pod off its networks, now that nothing of it runs.
    pub(super) async fn detach(&mut self) {
        self.networks = Networks::default();
        let uid = self.dir.uid.clone();
        let removed = spawn_blocking(move || network::tear_down(&uid)).await;
        match removed {
            Ok(Err(error)) => {
                tracing::warn!(pod = self.dir.name, namespace = self.dir.namespace, %error, "a pod's network is left");
            }
            _ => {
                let _ = fs::remove_file(self.dir.network_status());
            }
        }
    }
}

/// The settings of the pod's own namespace; others are of the whole machine.
fn sysctls(pod: &Pod) -> Vec<(String, String)> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let all = context.iter().flat_map(|context| context.sysctls.iter().flatten());
    let of_network = all.filter(|sysctl| sysctl.name.starts_with("net.") || sysctl.name.starts_with("net/"));
    of_network.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect()
}
