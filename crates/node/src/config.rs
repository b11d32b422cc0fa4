//! What a node needs to know about the machine and the binary it runs in.

use std::{
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use causeway_containers::Choice;
use tokio_util::sync::CancellationToken;

/// How the node is set up; [`Config::new`] fills in the usual values.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the Node object.
    pub name: String,
    /// Directory for pods, volumes, logs and process records.
    pub data_dir: PathBuf,
    /// The binary that runs containers of Causeway's own image.
    pub program: PathBuf,
    /// Repository of Causeway's own image, without tag or digest.
    pub own_image: String,
    /// The operator's namespace: of Causeway's own commands, those that let others into all of the cluster run there alone.
    pub own_namespace: String,
    /// The address of the node, and of pods with `hostNetwork`.
    pub address: IpAddr,
    /// The addresses for pods, one each; all must be this machine's, as all of 127.0.0.0/8 is on Linux.
    pub pod_addresses: RangeInclusive<Ipv4Addr>,
    /// Programs of this machine that stand for the entrypoints of images.
    pub programs: Vec<ImageProgram>,
    /// The container runtime for all other images; none leaves them waiting.
    pub containers: Option<Choice>,
    /// A kubeconfig of this API server: children get its address, never its credentials.
    pub kubeconfig: PathBuf,
    /// Where the API server is reached from pods that have a network namespace of their own; without it there are none.
    pub attached_api: Option<SocketAddr>,
    /// The API server's CA certificate (PEM), handed to pods as `ca.crt`.
    pub ca_path: PathBuf,
    /// How the shim of a container, which keeps its log and its exit code, is started.
    pub shim: ShimCommand,
    /// What a container of Causeway's own image may run.
    pub commands: CommandPolicy,
    /// First delay after a crash; doubles up to `backoff_max`.
    pub backoff_base: Duration,
    /// Longest delay between two starts of a crashing container.
    pub backoff_max: Duration,
    /// A container that ran this long starts again with the first delay.
    pub backoff_reset: Duration,
    /// What happens to running pods when the node stops.
    pub on_shutdown: OnShutdown,
    /// Cancelled when pods that are being stopped have had time enough.
    pub cut_short: CancellationToken,
}

/// The command line that becomes a container's shim; the container's directory is appended to it.
#[derive(Clone, Debug)]
pub struct ShimCommand {
    /// The executable; it must call [`crate::shim::main`] with the arguments after `args`.
    pub program: PathBuf,
    /// Arguments before the ones for [`crate::shim::main`].
    pub args: Vec<OsString>,
}

/// A program of this machine that runs in place of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageProgram {
    /// A repository, which covers all its tags, or an image with its tag or digest, which is preferred.
    pub image: String,
    /// The executable.
    pub path: PathBuf,
}

/// What a container of Causeway's own image may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandPolicy {
    /// The binary alone, with one of these as its first argument. It runs as the user of the control plane: its other
    /// subcommands could do whatever that user can.
    Subcommands(&'static [&'static str]),
    /// Any program of the host; for tests.
    Any,
}

/// What happens to running pods when the node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShutdown {
    /// Stop every container within its pod's grace period; the next start runs them again.
    StopPods,
    /// Leave them running; the next start adopts them.
    LeavePods,
}

impl Config {
    /// The usual setup: this binary for containers and shims, loopback for pods, Kubernetes' delays.
    pub fn new(name: impl Into<String>, data_dir: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self {
            name: name.into(),
            data_dir: data_dir.into(),
            shim: ShimCommand { program: program.clone(), args: vec!["pod-shim".into()] },
            program,
            own_image: "causeway.dev/causeway".to_owned(),
            own_namespace: String::new(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            // 127.128.0.0/10: apart from 127.0.0.1, from Services (127.96.0.0/16) and from what resolvers take.
            pod_addresses: Ipv4Addr::new(127, 128, 0, 1)..=Ipv4Addr::new(127, 191, 255, 254),
            programs: Vec::new(),
            containers: Some(Choice::Auto),
            kubeconfig: PathBuf::new(),
            attached_api: None,
            ca_path: PathBuf::new(),
            commands: CommandPolicy::Subcommands(&[]),
            backoff_base: Duration::from_secs(10),
            backoff_max: Duration::from_mins(5),
            backoff_reset: Duration::from_mins(10),
            on_shutdown: OnShutdown::StopPods,
            cut_short: CancellationToken::new(),
        }
    }
}
