//! What a pod may have of this machine because an administrator trusts its namespace. The API server checks what a pod
//! asks for in Kubernetes' words (hostPath, hostNetwork, …) by the same label; here is what it can't know: which images
//! are programs of the machine, and which networks its containers may join.

use k8s_openapi::api::core::v1::{Container, Namespace, Pod};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};

use super::{
    image::{CannotRun, Entrypoint},
    runtime_container,
};
use crate::config::Config;

/// The label of a namespace that an administrator trusts with the machine, as kubectl takes it.
pub(super) const PRIVILEGED: &str = "pod-security.kubernetes.io/enforce=privileged";

/// How far a pod's namespace is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    namespace: String,
    privileged: bool,
    /// The runtime's networks that the namespace has, by its ContainerNetworks.
    networks: Vec<String>,
}

impl Trust {
    /// Asks the API server.
    pub(super) async fn of(client: &Client, pod: &Pod) -> Result<Self, kube::Error> {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let found = Api::<Namespace>::all(client.clone()).get_metadata_opt(&namespace).await?;
        let labels = found.and_then(|namespace| namespace.metadata.labels).unwrap_or_default();
        let privileged = PRIVILEGED
            .split_once('=')
            .is_some_and(|(key, value)| labels.get(key).is_some_and(|level| level == value));
        let mut trust = Self { namespace, privileged, networks: Vec::new() };
        if !privileged && runtime_container::names_networks(pod) {
            trust.networks = networks_of(client, &trust.namespace).await?;
        }
        Ok(trust)
    }

    /// Whether a container may run as this program of the machine.
    pub(super) fn check_process(
        &self,
        config: &Config,
        entrypoint: &Entrypoint,
        pod: &Pod,
        container: &Container,
    ) -> Result<(), CannotRun> {
        if self.privileged {
            return Ok(());
        }
        let namespace = self.namespace.clone();
        if entrypoint.is_program() {
            let image = container.image.clone().unwrap_or_default();
            return Err(CannotRun::Program { image, namespace });
        }
        if entrypoint.is_confined(config.commands)
            && let Some(volume) = shared_with_others(config, pod, container)
        {
            return Err(CannotRun::Shared { volume, namespace });
        }
        Ok(())
    }

    /// Whether the pod's containers may join this network of the runtime; why not, if not.
    pub(super) fn check_network(&self, network: &str) -> Result<(), String> {
        // Docker and Podman take modes where they take names.
        if matches!(network, "host" | "none" | "private" | "slirp4netns" | "pasta")
            || network.contains([':', '/'])
        {
            return Err(format!(
                "{network:?} is not the name of a network; the host's network is hostNetwork: true"
            ));
        }
        if self.privileged || self.networks.iter().any(|name| name == network) {
            return Ok(());
        }
        let namespace = &self.namespace;
        Err(format!(
            "no ContainerNetwork of namespace {namespace} is the network {network:?}; who may change namespaces can allow every network: kubectl label namespace {namespace} {PRIVILEGED}"
        ))
    }

    /// Whether a process of Causeway may serve the networks of the machine's own interfaces.
    pub(super) fn allows_networks_of_the_machine(&self) -> bool {
        self.privileged
    }

    /// Whether processes of Causeway may use a claim that containers write to: they could put links there, too.
    pub(super) fn allows_shared_claims(&self) -> bool {
        self.privileged
    }

    /// Whether a subPath into a volume that others may write is safe to follow: links in it would lead to files of the
    /// machine, and another container that runs at the same time could put one there after a look.
    pub(super) fn allows_shared_sub_paths(&self) -> bool {
        self.privileged
    }
}

/// The writable volume that a container has together with one that is not Causeway's.
fn shared_with_others(config: &Config, pod: &Pod, container: &Container) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_writable = |name: &str| {
        let mut volumes = spec.volumes.iter().flatten();
        volumes.any(|volume| {
            let is_kept = volume.host_path.is_some() || volume.persistent_volume_claim.is_some();
            volume.name == name && (volume.empty_dir.is_some() || is_kept)
        })
    };
    let is_other = |other: &&Container| {
        let image = other.image.as_deref().unwrap_or_default();
        Entrypoint::of(config, image).map_or(true, |entrypoint| entrypoint.is_program())
    };
    let others = spec.init_containers.iter().flatten().chain(&spec.containers).filter(is_other);
    let theirs: Vec<&str> = others
        .flat_map(|other| other.volume_mounts.iter().flatten())
        .map(|mount| mount.name.as_str())
        .collect();
    let mut own = container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str());
    own.find(|name| is_writable(name) && theirs.contains(name)).map(str::to_owned)
}

/// The runtime's networks behind a namespace's ContainerNetworks.
async fn networks_of(client: &Client, namespace: &str) -> Result<Vec<String>, kube::Error> {
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("causeway.dev", "v1alpha1", "ContainerNetwork"),
        "containernetworks",
    );
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let name = |network: DynamicObject| Some(network.data["status"]["networkName"].as_str()?.to_owned());
    Ok(found.items.into_iter().filter_map(name).collect())
}
