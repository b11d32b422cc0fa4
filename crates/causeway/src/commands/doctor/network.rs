//! A ContainerNetwork: the runtime, the network in it, and what the controller says.

use causeway_api::{ContainerNetwork, ContainerNetworkStatus, NetworkMode};
use causeway_containers::{ErrorKind, Runtime};
use kube::ResourceExt;

use super::Examination;
use super::conditions::conditions;
use super::finding::{Finding, listed};
use super::runtime::runtime;

pub(super) async fn examine(examination: &Examination<'_>, name: &str) -> anyhow::Result<Vec<Finding>> {
    let found = examination.object.find::<ContainerNetwork>(&examination.client, name).await?;
    let Some(network) = found else { return Ok(vec![examination.missing::<ContainerNetwork>(name)]) };
    let status = network.status.clone().unwrap_or_default();
    let (runtime, said) = runtime(examination.container_runtime, &status.conditions).await;
    let mut found = vec![said];
    if let Some(runtime) = runtime {
        found.extend(in_runtime(&runtime, &network, &status).await);
    }
    let generation = network.metadata.generation;
    found.extend(conditions(&status.conditions, status.observed_generation, generation, &found));
    Ok(found)
}

/// Whether the runtime has it.
pub(super) async fn in_runtime(
    runtime: &Runtime,
    object: &ContainerNetwork,
    status: &ContainerNetworkStatus,
) -> Option<Finding> {
    let name = status.network_name.as_ref().or(object.spec.network_name.as_ref())?;
    let kind = runtime.kind();
    let object_name = object.name_any();
    Some(match (runtime.network(name).await, object.spec.effective_mode()) {
        (Ok(network), NetworkMode::Cleanup) => {
            let used: Vec<_> = network.containers.iter().map(|container| container.name.clone()).collect();
            Finding::bad(
                format!("network {name} should be gone and is still in {kind}"),
                match used.as_slice() {
                    [] => format!("see the conditions of containernetwork/{object_name} for what keeps it"),
                    used => format!("containers use it: stop or disconnect {}", listed(used)),
                },
            )
        }
        (Ok(network), _) => {
            let subnets: Vec<_> = network.subnets.iter().map(|subnet| subnet.range.clone()).collect();
            Finding::good(format!("{kind} has the network {name} ({})", subnets.join(", ")))
        }
        (Err(error), mode) if error.kind() == ErrorKind::NotFound => match mode {
            NetworkMode::Cleanup => Finding::good(format!("network {name} is gone from {kind}")),
            NetworkMode::Existing => Finding::bad(
                format!("{kind} has no network {name}"),
                format!(
                    "mode existing leaves it to others to make it: create it, or correct spec.networkName of containernetwork/{object_name}"
                ),
            ),
            NetworkMode::Session | NetworkMode::Persistent => Finding::bad(
                format!("{kind} has no network {name}"),
                "the control plane makes it again: see whether it runs, and its log",
            ),
        },
        (Err(error), _) => Finding::skipped(format!("network {name} can't be looked at: {}", error.report())),
    })
}
