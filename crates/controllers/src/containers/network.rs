//! The ContainerNetwork controller: one object is one network of Docker or Podman, made, adopted or removed, and followed
//! while it lives. It wakes on what happens in the runtime, so that the status is what the runtime says.

mod apply;
mod desired;
#[cfg(test)]
mod fixture;
mod observe;
mod status;
mod tracked;
mod validate;
mod wakes;

use std::{hash::Hasher as _, sync::Arc};

use causeway_api::{ContainerNetwork, ContainerNetworkStatus, NetworkMode, names};
use causeway_containers::Runtime;
use futures::{StreamExt, stream::BoxStream};
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};

use self::{
    status::{Input, ReconcileResult},
    tracked::TrackedObjects,
    validate::Valid,
    wakes::Wakes,
};
use crate::{
    containers::{
        leftovers::Sweeper,
        runtime::{Availability, ContainerRuntime},
    },
    framework::{
        children::{ChildKind, Children},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        runner::{Reconciler, life},
        status::{Writer, now},
    },
};

/// The kind in the labels of what is made.
pub(crate) const KIND: &str = "ContainerNetwork";

const NAME: &str = "network";
const FIELD_MANAGER: &str = "causeway-network";

/// Reconciles ContainerNetworks.
pub(crate) struct Controller {
    client: Client,
    runtime: ContainerRuntime,
    finalizer: Finalizer<ContainerNetwork>,
    status: Writer<ContainerNetworkStatus>,
    events: Recorder,
    tracked: Arc<TrackedObjects>,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, runtime: ContainerRuntime, identity: &str) -> Self {
        Self {
            runtime,
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_CONTAINER_NETWORK),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            events: Recorder::new(client.clone(), "causeway.dev/network", identity),
            tracked: Arc::default(),
            client,
        }
    }

    /// Brings the runtime's network to what is asked for, or away if the object goes.
    async fn converge(&self, object: &ContainerNetwork, valid: &Valid, runtime: &Runtime) -> ReconcileResult {
        let converged = async {
            let instance = self.runtime.instance();
            let existing = observe::observe(object, valid, runtime, instance, &self.sweeper()).await?;
            let action = if object.metadata.deletion_timestamp.is_some() {
                desired::on_deletion(existing)
            } else {
                desired::desired(valid, existing)
            };
            apply::apply(runtime, action, &desired::network_spec(object, valid, instance)).await
        };
        converged.await.unwrap_or_else(|error| ReconcileResult::Failed(Arc::new(error)))
    }

    /// Removes what goes with the object, then lets the object go.
    async fn clean_up(&self, object: &ContainerNetwork) -> Result<(), Error> {
        if !self.finalizer.is_on(object) {
            return Ok(());
        }
        let previous = self.status.previous(object);
        let availability = self.runtime.availability().borrow().clone();
        let result = match (validate::validate(object), availability.runtime()) {
            (Ok(valid), Some(runtime)) => self.converge(object, &valid, runtime).await,
            (Ok(_), None) if matches!(availability, Availability::Searching) => return Ok(()),
            // Nothing was made as far as anyone knows; if something was, a sweep finds it.
            (Ok(_), None) if previous.id.is_some() => ReconcileResult::RuntimeUnavailable,
            (Ok(_), None) | (Err(_), _) => ReconcileResult::Removed,
        };
        if matches!(result, ReconcileResult::Removed) {
            return self.finalizer.remove(object).await;
        }
        let input = Input {
            generation: generation(object),
            availability: &availability,
            valid: None,
            result: &result,
        };
        let next = status::deleting(&previous, &input, &now());
        self.write(object, &previous, &next).await?;
        result.into_result()
    }

    async fn write(
        &self,
        object: &ContainerNetwork,
        previous: &ContainerNetworkStatus,
        next: &ContainerNetworkStatus,
    ) -> Result<(), Error> {
        self.status.report(object, previous, next, &self.events, status::notes).await
    }

    fn sweeper(&self) -> Sweeper<ContainerNetwork> {
        let tracked = self.tracked.clone();
        Sweeper::new(self.client.clone(), self.runtime.instance(), move |uid| tracked.contains(uid))
    }
}

impl Reconciler for Controller {
    type Primary = ContainerNetwork;
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] = &[];

    async fn reconcile(&self, object: Arc<ContainerNetwork>, _: Children) -> Result<(), Error> {
        let valid = validate::validate(&object);
        // Before the runtime is observed, so that no event after that is lost.
        self.tracked.insert(&object, valid.as_ref().map_or("", |valid| &valid.name));
        if object.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&object).await;
        }
        let availability = self.runtime.availability().borrow().clone();
        let result = match (&valid, &availability) {
            (Err(problem), _) => ReconcileResult::Invalid(problem.clone()),
            // The end of the search wakes it.
            (Ok(_), Availability::Searching) => return Ok(()),
            (Ok(_), Availability::Unavailable { .. }) => ReconcileResult::RuntimeUnavailable,
            (Ok(valid), Availability::Found(runtime)) => {
                // First the promise to clean up, then what has to be cleaned up.
                let is_promised = valid.mode != NetworkMode::Session
                    || self.finalizer.is_on(&object)
                    || self.finalizer.add(&object).await?;
                if !is_promised {
                    return Ok(());
                }
                self.converge(&object, valid, runtime).await
            }
        };
        let previous = self.status.previous(&*object);
        let input = Input {
            generation: generation(&object),
            availability: &availability,
            valid: valid.as_ref().ok(),
            result: &result,
        };
        let next = status::next(&previous, &input, &now());
        self.write(&object, &previous, &next).await?;
        result.into_result()
    }

    fn wakes_on(object: &ContainerNetwork) -> Option<u64> {
        Some(life(object).finish())
    }

    fn forget(&self, object: &ContainerNetwork) {
        self.tracked.remove(uid(object));
        self.status.forget(uid(object));
    }

    fn wakes(&self) -> BoxStream<'static, ObjectRef<ContainerNetwork>> {
        Wakes::new(&self.runtime, self.tracked.clone(), self.sweeper()).into_stream().boxed()
    }
}

fn uid(object: &ContainerNetwork) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

fn key(object: &ContainerNetwork) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn generation(object: &ContainerNetwork) -> i64 {
    object.metadata.generation.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kube::Resource as _;

    use super::*;

    #[test]
    fn names_agree_with_the_api() {
        assert_eq!(FIELD_MANAGER, names::field_manager(NAME));
        assert_eq!(KIND, ContainerNetwork::kind(&()));
    }
}
