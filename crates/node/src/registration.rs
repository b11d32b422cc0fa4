//! The Node object of this machine and its heartbeat, a Lease in `kube-node-lease`.

use std::{collections::BTreeMap, error::Error as StdError, fs, net::IpAddr, time::Duration};

use causeway_base::backoff::spread;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Namespace, Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, Time},
    },
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::workload::{controller_reference, is_code};

const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The status is written again so often even when nothing changed.
const STATUS_EVERY: u32 = 30;

/// Registers the node and keeps it alive until `shutdown`; then says that it is not ready.
pub(crate) async fn run(client: Client, name: String, address: IpAddr, shutdown: CancellationToken) {
    let mut beats = 0;
    loop {
        let result = async {
            if beats % STATUS_EVERY == 0 {
                register(&client, &name, address, true).await?;
            }
            renew_lease(&client, &name).await
        };
        let wait = match result.await {
            Ok(()) => {
                beats += 1;
                HEARTBEAT
            }
            Err(error) => {
                tracing::warn!(node = name, error = &error as &dyn StdError, "cannot report the node");
                Duration::from_secs(1)
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = sleep(spread(wait)) => {}
        }
    }
    // The server may be going down as well; then the next start sets it right.
    let _ = tokio::time::timeout(Duration::from_secs(2), register(&client, &name, address, false)).await;
}

async fn register(client: &Client, name: &str, address: IpAddr, ready: bool) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = match nodes.get_opt(name).await? {
        Some(node) => node,
        None => match nodes.create(&PostParams::default(), &build_node(name)).await {
            Ok(node) => node,
            Err(error) if is_code(&error, 409) => nodes.get(name).await?,
            Err(error) => return Err(error),
        },
    };
    let status = build_status(node.status.as_ref(), name, address, ready, &Machine::read(), Timestamp::now());
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}

async fn renew_lease(client: &Client, name: &str) -> kube::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    let now = MicroTime(Timestamp::now());
    let patch = Patch::Merge(
        json!({"spec": {"renewTime": now, "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS}}),
    );
    match leases.patch(name, &PatchParams::default(), &patch).await {
        Ok(_) => return Ok(()),
        Err(error) if is_code(&error, 404) => {}
        Err(error) => return Err(error),
    }
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": LEASE_NAMESPACE}}))
        .map_err(kube::Error::SerdeError)?;
    match Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Err(error) if !is_code(&error, 409) => return Err(error),
        _ => {}
    }
    let node = Api::<Node>::all(client.clone()).get(name).await?;
    let mut owner = controller_reference(&node);
    owner.controller = None;
    owner.block_owner_deletion = None;
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
    }))
    .map_err(kube::Error::SerdeError)?;
    match leases.create(&PostParams::default(), &lease).await {
        Err(error) if !is_code(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

/// CPUs and bytes of memory of this machine.
pub(crate) fn capacity() -> (u64, u64) {
    let machine = Machine::read();
    (machine.cpus as u64, machine.memory_kib * 1024)
}

/// What the machine says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Machine {
    cpus: usize,
    memory_kib: u64,
    kernel: String,
    os: String,
    id: String,
    boot_id: String,
}

impl Machine {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let memory = text("/proc/meminfo");
        Self {
            cpus: std::thread::available_parallelism().map_or(1, Into::into),
            memory_kib: memory
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok())
                .unwrap_or(0),
            kernel: text("/proc/sys/kernel/osrelease"),
            os: text("/etc/os-release")
                .lines()
                .find_map(|line| Some(line.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()))
                .unwrap_or_else(|| "Linux".to_owned()),
            id: text("/etc/machine-id"),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
        }
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn build_node(name: &str) -> Node {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("node-role.kubernetes.io/control-plane", ""),
    ];
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.metadata.labels =
        Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    node
}

fn build_status(
    before: Option<&NodeStatus>,
    name: &str,
    address: IpAddr,
    ready: bool,
    machine: &Machine,
    now: Timestamp,
) -> NodeStatus {
    let quantities: BTreeMap<String, Quantity> = [
        ("cpu", machine.cpus.to_string()),
        ("memory", format!("{}Ki", machine.memory_kib)),
        ("pods", "110".to_owned()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), Quantity(value)))
    .collect();
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        let known = before.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let since = known
            .iter()
            .find(|known| known.type_ == type_ && known.status == status)
            .and_then(|known| known.last_transition_time.clone());
        NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(since.unwrap_or(Time(now))),
        }
    };
    let readiness = if ready {
        condition("Ready", "True", "KubeletReady", "the local node is running pods")
    } else {
        condition(
            "Ready",
            "False",
            "NodeStopped",
            "the local node was stopped; start it again with `causeway up`",
        )
    };
    let address_of = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let version = format!("v1.34.0+causeway-{}", env!("CARGO_PKG_VERSION"));
    NodeStatus {
        capacity: Some(quantities.clone()),
        allocatable: Some(quantities),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "the local node does not limit memory",
            ),
            condition(
                "DiskPressure",
                "False",
                "KubeletHasNoDiskPressure",
                "the local node does not limit disk space",
            ),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "the local node does not limit processes",
            ),
            readiness,
        ]),
        addresses: Some(vec![
            address_of("InternalIP", address.to_string()),
            address_of("Hostname", name.to_owned()),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            boot_id: machine.boot_id.clone(),
            container_runtime_version: format!("causeway-process://{}", env!("CARGO_PKG_VERSION")),
            kernel_version: machine.kernel.clone(),
            kube_proxy_version: String::new(),
            kubelet_version: version,
            machine_id: machine.id.clone(),
            operating_system: "linux".to_owned(),
            os_image: machine.os.clone(),
            system_uuid: machine.id.clone(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_transition_time_while_ready() {
        let address = "127.0.0.1".parse().unwrap();
        let machine = Machine { cpus: 2, memory_kib: 1024, ..Machine::default() };
        let first = build_status(None, "n", address, true, &machine, Timestamp::from_second(100).unwrap());
        let second =
            build_status(Some(&first), "n", address, true, &machine, Timestamp::from_second(200).unwrap());
        let stopped =
            build_status(Some(&second), "n", address, false, &machine, Timestamp::from_second(300).unwrap());
        let ready = |status: &NodeStatus| {
            let conditions = status.conditions.clone().unwrap();
            let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
            (
                ready.status,
                ready.last_transition_time.unwrap().0.as_second(),
                ready.last_heartbeat_time.unwrap().0.as_second(),
            )
        };
        assert_eq!(ready(&second), ("True".into(), 100, 200));
        assert_eq!(ready(&stopped), ("False".into(), 300, 300));
        assert_eq!(first.capacity.unwrap()["memory"].0, "1024Ki");
    }
}
