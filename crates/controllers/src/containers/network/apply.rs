//! What is done to the runtime: networks made and removed.

use causeway_containers::{Error, ErrorKind, Network, NetworkSpec, Runtime};

use super::{desired::Action, status::ReconcileResult};

/// Carries `action` out; `spec` is what a network that has to be made is made from.
pub(crate) async fn apply(
    runtime: &Runtime,
    action: Action,
    spec: &NetworkSpec,
) -> Result<ReconcileResult, Error> {
    match action {
        Action::Keep(network) => Ok(ReconcileResult::Running(network)),
        Action::Refuse(why) => Ok(ReconcileResult::Conflict(why)),
        Action::ReportMissing => Ok(ReconcileResult::Missing),
        Action::None => Ok(ReconcileResult::Removed),
        Action::Remove(network) => Ok(match remove(runtime, network).await? {
            Some(network) => ReconcileResult::InUse(network),
            None => ReconcileResult::Removed,
        }),
        Action::Replace(network) => match remove(runtime, network).await? {
            Some(network) => Ok(ReconcileResult::InUse(network)),
            None => create(runtime, spec).await,
        },
        Action::Create => create(runtime, spec).await,
    }
}

async fn create(runtime: &Runtime, spec: &NetworkSpec) -> Result<ReconcileResult, Error> {
    runtime.create_network(spec).await.map(ReconcileResult::Running)
}

/// Removes a network; gives it back, as it is now, when containers keep it from going.
async fn remove(runtime: &Runtime, network: Network) -> Result<Option<Network>, Error> {
    match runtime.remove_network(&network.id).await {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::InUse => match runtime.network(&network.id).await {
            Ok(now) => Ok(Some(now)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}
