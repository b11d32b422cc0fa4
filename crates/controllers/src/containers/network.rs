//! The ContainerNetwork controller: one object is one network of Docker or Podman, made, adopted or removed, and followed
//! while it lives. It wakes on what happens in the runtime, so that the status is what the runtime says.

mod decide;
mod known;
mod status;
mod validate;
mod wakes;

use std::{hash::Hasher as _, sync::Arc};

use causeway_api::{ContainerNetwork, ContainerNetworkStatus, NetworkMode, names};
use causeway_containers::{ErrorKind, Network, NetworkSpec, Runtime, labels};
use futures::{StreamExt, stream::BoxStream};
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};

use self::{
    decide::{Decision, Found},
    known::Known,
    status::{Outcome, Situation},
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
    known: Arc<Known>,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, runtime: ContainerRuntime, identity: &str) -> Self {
        Self {
            runtime,
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_CONTAINER_NETWORK),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            events: Recorder::new(client.clone(), "causeway.dev/network", identity),
            known: Arc::default(),
            client,
        }
    }

    /// Brings the runtime's network to what is asked for.
    async fn converge(&self, object: &ContainerNetwork, valid: &Valid, runtime: &Runtime) -> Outcome {
        match self.try_to_converge(object, valid, runtime).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(Arc::new(error)),
        }
    }

    async fn try_to_converge(
        &self,
        object: &ContainerNetwork,
        valid: &Valid,
        runtime: &Runtime,
    ) -> Result<Outcome, causeway_containers::Error> {
        let found = self.look(object, valid, runtime).await?;
        match decide::decide(valid, found) {
            Decision::Keep(network) => Ok(Outcome::Running(network)),
            Decision::Refuse(why) => Ok(Outcome::Conflict(why)),
            Decision::Miss => Ok(Outcome::Missing),
            Decision::Rest => Ok(Outcome::Removed),
            Decision::Remove(network) => Ok(match remove(runtime, network).await? {
                Some(network) => Outcome::InUse(network),
                None => Outcome::Removed,
            }),
            Decision::Replace(network) => match remove(runtime, network).await? {
                Some(network) => Ok(Outcome::InUse(network)),
                None => self.make(object, valid, runtime).await,
            },
            Decision::Make => self.make(object, valid, runtime).await,
        }
    }

    async fn make(
        &self,
        object: &ContainerNetwork,
        valid: &Valid,
        runtime: &Runtime,
    ) -> Result<Outcome, causeway_containers::Error> {
        let owner = labels::Owner {
            uid: uid(object),
            kind: KIND,
            name: &key(object),
            instance: self.runtime.instance(),
        };
        let mut labels = owner.labels();
        if valid.mode == NetworkMode::Persistent {
            labels.insert(labels::PERSISTENT.to_owned(), "true".to_owned());
        }
        let spec =
            NetworkSpec { name: valid.name.clone(), ipv6: valid.ipv6, labels, ..NetworkSpec::default() };
        runtime.create_network(&spec).await.map(Outcome::Running)
    }

    /// The network of that name, if there is one, and who made it.
    async fn look(
        &self,
        object: &ContainerNetwork,
        valid: &Valid,
        runtime: &Runtime,
    ) -> Result<Option<Found>, causeway_containers::Error> {
        let network = match runtime.network(&valid.name).await {
            // Runtimes also take the beginning of an id for a name.
            Ok(network) if network.name != valid.name => return Ok(None),
            Ok(network) => network,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut found = Found::of(network, uid(object), self.runtime.instance());
        if let Some(other) = found.sibling() {
            // One that cannot be asked for is taken to be there: its network is left alone.
            let is_there = match self.sweeper().living().await {
                Ok(living) => living.contains(other),
                Err(error) => {
                    tracing::warn!(
                        error = crate::framework::report::chain(&error),
                        "cannot tell who owns a network"
                    );
                    true
                }
            };
            if !is_there {
                found.orphan();
            }
        }
        Ok(Some(found))
    }

    /// Removes what goes with the object, then lets the object go.
    async fn clean_up(&self, object: &ContainerNetwork) -> Result<(), Error> {
        if !self.finalizer.is_on(object) {
            return Ok(());
        }
        let previous = self.status.previous(object);
        let availability = self.runtime.availability().borrow().clone();
        let outcome = match (validate::validate(object), availability.runtime()) {
            (Ok(valid), Some(runtime)) => self.take_down(object, &valid, runtime).await,
            (Ok(_), None) if matches!(availability, Availability::Searching) => return Ok(()),
            // Nothing was made as far as anyone knows; if something was, a sweep finds it.
            (Ok(_), None) if previous.id.is_some() => Outcome::Waiting,
            (Ok(_), None) | (Err(_), _) => Outcome::Removed,
        };
        if matches!(outcome, Outcome::Removed) {
            return self.finalizer.remove(object).await;
        }
        let situation = Situation { generation: generation(object), availability: &availability };
        let next = status::deleting(&previous, &outcome, &situation, &now());
        self.write(object, &previous, &next).await?;
        outcome.into_result()
    }

    async fn take_down(&self, object: &ContainerNetwork, valid: &Valid, runtime: &Runtime) -> Outcome {
        let removed = async {
            match self.look(object, valid, runtime).await? {
                Some(found) if found.is_own() => remove(runtime, found.network).await,
                _ => Ok(None),
            }
        };
        match removed.await {
            Ok(None) => Outcome::Removed,
            Ok(Some(network)) => Outcome::InUse(network),
            Err(error) => Outcome::Failed(Arc::new(error)),
        }
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
        let known = self.known.clone();
        Sweeper::new(self.client.clone(), self.runtime.instance(), move |uid| known.contains(uid))
    }
}

impl Reconciler for Controller {
    type Primary = ContainerNetwork;
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] = &[];

    async fn reconcile(&self, object: Arc<ContainerNetwork>, _: Children) -> Result<(), Error> {
        let valid = validate::validate(&object);
        // Before the runtime is looked at, so that no event after that look is lost.
        self.known.insert(&object, valid.as_ref().map_or("", |valid| &valid.name));
        if object.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&object).await;
        }
        let availability = self.runtime.availability().borrow().clone();
        let outcome = match (&valid, &availability) {
            (Err(problem), _) => Outcome::Invalid(problem.clone()),
            // The end of the search wakes it.
            (Ok(_), Availability::Searching) => return Ok(()),
            (Ok(_), Availability::Unavailable { .. }) => Outcome::Waiting,
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
        let situation = Situation { generation: generation(&object), availability: &availability };
        let next = status::next(&previous, valid.as_ref().ok(), &outcome, &situation, &now());
        self.write(&object, &previous, &next).await?;
        outcome.into_result()
    }

    fn wakes_on(object: &ContainerNetwork) -> Option<u64> {
        Some(life(object).finish())
    }

    fn forget(&self, object: &ContainerNetwork) {
        self.known.remove(uid(object));
        self.status.forget(uid(object));
    }

    fn wakes(&self) -> BoxStream<'static, ObjectRef<ContainerNetwork>> {
        Wakes::new(&self.runtime, self.known.clone(), self.sweeper()).into_stream().boxed()
    }
}

/// Removes a network; gives it back, as it is now, when containers keep it from going.
async fn remove(runtime: &Runtime, network: Network) -> Result<Option<Network>, causeway_containers::Error> {
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
