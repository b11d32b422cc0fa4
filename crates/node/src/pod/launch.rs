//! From a container's spec to what is executed: environment, mounts, program, arguments, working directory.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    io,
    net::IpAddr,
    path::{Component, Path, PathBuf},
};

use causeway_base::{
    file::create_private_dir,
    well_known::{HANDOVER_DIR, MACHINE_ADDRESS, RESOLV_CONF},
};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Shared, confine,
    env::{self, EnvError, Environment},
    fields::Host,
    image::{CannotRun, Entrypoint},
    mounts::Mounts,
    sources::Sources,
    token::MOUNT_PATH,
};
use crate::{
    layout::{PodDir, handover_dir},
    process::Launch,
};

/// Kubernetes cuts there, and Docker takes no more.
const HOSTNAME_LENGTH: usize = 63;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a container cannot be started as its spec says.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error(transparent)]
    Environment(#[from] EnvError),
    #[error(transparent)]
    CannotRun(#[from] CannotRun),
    #[error("{0}")]
    Refused(String),
    #[error("cannot prepare {path}: {source}")]
    Prepare { path: PathBuf, source: io::Error },
}

impl LaunchError {
    /// The reason of the container's waiting state.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Environment(_) => "CreateContainerConfigError",
            Self::CannotRun(cannot) => cannot.reason(),
            Self::Refused(_) | Self::Prepare { .. } => "CreateContainerError",
        }
    }
}

/// Where a pod is on this machine.
pub(super) struct Home<'a> {
    pub dir: &'a PodDir,
    pub address: IpAddr,
    /// The network namespace of a pod that has one of its own.
    pub network: Option<&'a Path>,
    /// Whether it may serve whole networks: those that it is attached to, or those of the machine.
    pub serves_networks: bool,
}

/// Decides what to execute for a container, and prepares its root directory.
pub(super) fn prepare(
    shared: &Shared,
    home: &Home<'_>,
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    number: i32,
) -> Result<(Launch, Mounts), LaunchError> {
    let Home { dir, address, network, serves_networks } = *home;
    let root = dir.root(&container.name);
    let mut given = Environment::default();
    given.set("PATH", PATH);
    given.set("HOSTNAME", hostname(pod));
    given.set("HOME", root.to_string_lossy());
    let api = if network.is_some() { &shared.attached_api } else { &shared.api };
    if let Some(api) = api {
        given.set("KUBERNETES_SERVICE_HOST", &api.host);
        given.set("KUBERNETES_SERVICE_PORT", api.port.to_string());
        given.set("KUBERNETES_SERVICE_PORT_HTTPS", api.port.to_string());
    }
    given.set("CAUSEWAY_ROOT", root.to_string_lossy());
    let host = shared.host(address);
    let mounts = mounts(dir, pod, container, sources, host, &given)?;
    let prepare = |source| LaunchError::Prepare { path: root.clone(), source };
    mounts.link(&root).map_err(prepare)?;
    if let Some(mount) = mounts.at(MOUNT_PATH) {
        given.set("CAUSEWAY_SERVICEACCOUNT_DIR", mount.source.to_string_lossy());
        if let Some(api) = api {
            let path = dir.container(&container.name).join("kubeconfig");
            write_kubeconfig(&path, &api.url, &mount.source).map_err(prepare)?;
            given.set("KUBECONFIG", path.to_string_lossy());
        }
    }
    let image = container.image.as_deref().unwrap_or_default();
    let entrypoint = Entrypoint::of(&shared.config, image)?;
    if network.is_some() {
        // It does not reach the resolvers of the machine, but the machine, which hands on what is asked there.
        let path = dir.path().join("resolv.conf");
        fs::write(&path, format!("nameserver {MACHINE_ADDRESS}\n")).map_err(prepare)?;
        given.set(RESOLV_CONF, path.to_string_lossy());
    }
    // Sockets of one network are of no use in another.
    if network.is_none() {
        let handover = handover_dir(&shared.config.data_dir, &dir.namespace).map_err(prepare)?;
        given.set(HANDOVER_DIR, handover.to_string_lossy());
    }
    let own = given.clone();
    let mut environment = env::build(pod, container, host, sources, given)?;
    // Last, so that no pod can name the place of another namespace.
    environment.set(HANDOVER_DIR, own.get(HANDOVER_DIR).unwrap_or_default());
    let expand = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter().flatten().map(|text| mounts.rewrite(&environment.expand(text))).collect()
    };
    let policy = shared.config.commands;
    let (program, args) =
        entrypoint.resolve(policy, &expand(&container.command), &expand(&container.args))?;
    let working_dir = working_dir(container, &mounts, &root).map_err(prepare)?;
    let mut env = environment.into_entries();
    if entrypoint.is_confined(policy) {
        confine::check_command(&args, serves_networks, &dir.namespace, &shared.config.own_namespace)?;
        confine::check_arguments(&args, &working_dir, dir, &mounts)?;
        env = confine::environment(&own, env, &working_dir, dir, &mounts);
    }
    let launch = Launch {
        program,
        args,
        env,
        working_dir,
        pod_uid: dir.uid.clone(),
        container: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        spec_hash: spec_hash(container),
        restart_count: number,
        network: network.map(Path::to_owned),
        runtime_container: None,
    };
    Ok((launch, mounts))
}

/// The mounts of a container; `subPathExpr` sees its environment.
pub(super) fn mounts(
    dir: &PodDir,
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    host: Host<'_>,
    given: &Environment,
) -> Result<Mounts, LaunchError> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let machine: Vec<(String, PathBuf)> = volumes
        .iter()
        .filter_map(|volume| Some((volume.name.clone(), PathBuf::from(&volume.host_path.as_ref()?.path))))
        .collect();
    let needs_environment =
        container.volume_mounts.iter().flatten().any(|mount| mount.sub_path_expr.is_some());
    let environment = if needs_environment {
        env::build(pod, container, host, sources, given.clone())?
    } else {
        Environment::default()
    };
    Mounts::of(container, dir, &machine, &environment).map_err(LaunchError::Refused)
}

/// What of a container's spec may change while the pod lives.
pub(super) fn spec_hash(container: &Container) -> String {
    let mut hasher = DefaultHasher::new();
    container.image.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The name of the pod's machine: a label of DNS, which is shorter than a pod's name may be.
pub(super) fn hostname(pod: &Pod) -> String {
    let name = pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).unwrap_or_else(|| pod.name_any());
    let cut = name.get(..HOSTNAME_LENGTH).unwrap_or(&name);
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// A mounted directory, or one below the container's root.
fn working_dir(container: &Container, mounts: &Mounts, root: &Path) -> io::Result<PathBuf> {
    let Some(wanted) = container.working_dir.as_deref().filter(|path| !path.is_empty()) else {
        return Ok(root.to_owned());
    };
    // Whatever it says, it is below the root or a mount.
    let parts = Path::new(wanted).components().filter(|part| matches!(part, Component::Normal(_)));
    let parts: PathBuf = parts.collect();
    if let Some(mapped) = mounts.map(&format!("/{}", parts.display())) {
        return Ok(mapped);
    }
    let below = root.join(parts);
    create_private_dir(&below)?;
    Ok(below)
}

/// A kubeconfig that points at the mounted token, so that clients which cannot find it in its usual place still can.
fn write_kubeconfig(path: &Path, server: &str, credentials: &Path) -> io::Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "causeway", "cluster": {"server": server, "certificate-authority": credentials.join("ca.crt")}}],
        "users": [{"name": "pod", "user": {"tokenFile": credentials.join("token")}}],
        "contexts": [{"name": "pod", "context": {"cluster": "causeway", "user": "pod"}}],
        "current-context": "pod",
    });
    if let Some(parent) = path.parent() {
        create_private_dir(parent)?;
    }
    fs::write(path, serde_json::to_vec_pretty(&config)?)
}
