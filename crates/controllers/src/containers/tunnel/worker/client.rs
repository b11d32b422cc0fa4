//! The client in the hands of a worker: its image, and the container that is made from it.

use causeway_api::conditions::Reason;
use causeway_containers::{Runtime, client_image};

use super::container::{self, Wanted};
use super::work::Work;
use crate::containers::tunnel::desired::Desired;
use crate::containers::tunnel::problem::Problem;
use crate::containers::tunnel::state::Phase;
use crate::containers::tunnel::validate::Network;

impl Work {
    /// Makes image and container be there; what is there already is left alone.
    pub(super) async fn establish(
        &mut self,
        runtime: &Runtime,
        desired: &Desired,
        network: &Network,
    ) -> Result<(), Problem> {
        let image = match self.state().image.clone() {
            Some(image) => image,
            None => self.image(runtime, desired).await?,
        };
        if self.state().client.is_none() {
            self.enter(Phase::Starting);
            can_be_reached(runtime, network).await?;
        }
        let keeps_older = self.is_up();
        self.ledger.has_container = true;
        self.keep_if_changed()?;
        let directory = self.directory.path().to_owned();
        let wanted = Wanted {
            owner: &self.owner,
            image: &image,
            network,
            aliases: &desired.aliases,
            program: &self.program,
            directory: &directory,
            keeps_older,
        };
        let journal = &mut self.directory.journal;
        let mut say = |line: &str| journal.say(line);
        let ensured = container::ensure(runtime, &wanted, &mut self.ledger, &mut say).await;
        let ensured = match ensured {
            Ok(ensured) => ensured,
            Err(problem) => {
                // Whatever it was, the image may be gone too: it is looked for again.
                self.state().image = None;
                self.keep_if_changed()?;
                return Err(problem);
            }
        };
        self.is_outdated = ensured.is_outdated;
        self.ledger.client = Some((ensured.client.clone(), network.clone()));
        self.keep_if_changed()?;
        self.state().client = Some(ensured.client);
        self.state().halted = ensured.halted;
        self.state().problem = None;
        self.enter(Phase::Linked);
        Ok(())
    }

    async fn image(&mut self, runtime: &Runtime, desired: &Desired) -> Result<String, Problem> {
        if self.host.is_none() {
            self.enter(Phase::BuildingImage);
        }
        let options = client_image::Options { base_image: desired.base_image.clone(), ..Default::default() };
        let journal = &mut self.directory.journal;
        let image =
            client_image::ensure(runtime, &options, |line| journal.say(line)).await.map_err(|error| {
                let reason = Reason::ImageBuildFailed;
                Problem { reason, is_permanent: error.is_permanent(), message: error.report() }
            })?;
        self.state().image = Some(image.clone());
        Ok(image)
    }

    /// Removes the container; it is gone for certain when this returns well.
    pub(super) async fn remove_container(&mut self, runtime: &Runtime) -> Result<(), Problem> {
        container::remove(runtime, &self.owner).await.map_err(|error| Problem::not_ready(error.report()))?;
        self.ledger.has_container = false;
        self.ledger.client = None;
        self.keep_if_changed()
    }
}

/// Whether the host can reach a container on this network by ports that are published.
async fn can_be_reached(runtime: &Runtime, network: &Network) -> Result<(), Problem> {
    // A network that can't be looked at is found out about when the container is made.
    let is_internal = runtime.network(&network.name).await.is_ok_and(|found| found.internal);
    if !is_internal {
        return Ok(());
    }
    let message = format!(
        "network {} is internal, so no port of its containers is published and the host can't reach the client: name a \
         ContainerNetwork that is not internal",
        network.name
    );
    Err(Problem::permanent(Reason::NotReady, message))
}
