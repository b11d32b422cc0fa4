//! The end of a tunnel proxy: streams end, then everything that was made is removed but the memory of the ports. It is
//! tried until it is seen to be gone.

use std::time::Duration;

use super::RETRY;
use super::work::{Work, unusable};
use crate::containers::runtime::Availability;
use crate::containers::tunnel::problem::Problem;
use crate::containers::tunnel::state::Phase;

impl Work {
    /// Clears up, and ends when nothing is left.
    pub(super) async fn finish(mut self, drain: Duration) {
        self.enter(Phase::Ending);
        self.directory.journal.say(&format!("draining, at most {} s", drain.as_secs()));
        let mut retries = RETRY.retries();
        while let Err(problem) = self.clear(drain).await {
            self.state().problem = Some(problem);
            self.tell();
            tokio::select! {
                () = tokio::time::sleep(retries.next_delay()) => {}
                _ = self.availability_rx.changed() => {}
            }
        }
        self.state().image = None;
        self.state().problem = None;
        self.enter(Phase::Gone);
    }

    async fn clear(&mut self, drain: Duration) -> Result<(), Problem> {
        if self.has_directory()? {
            self.end_host(drain).await?;
            self.tell();
        }
        if self.ledger.has_container {
            let name = self.owner.container_name();
            let availability = self.availability_rx.borrow_and_update().clone();
            let why = match availability {
                Availability::Found(runtime) => {
                    self.remove_container(&runtime).await?;
                    self.directory.journal.say(&format!("container {name} is removed"));
                    None
                }
                Availability::Searching => Some("a container runtime is looked for".to_owned()),
                Availability::Unavailable { why } => Some(why),
            };
            if let Some(why) = why {
                return Err(Problem::not_ready(format!(
                    "container {name} can't be removed before its runtime answers: {why}"
                )));
            }
        }
        if self.has_directory()? {
            self.directory.leave().map_err(|error| unusable(&error))?;
        }
        Ok(())
    }
}
