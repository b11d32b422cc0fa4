//! The door of a connection's daemon, as the other commands go through it.

use std::time::Duration;

use anyhow::{anyhow, bail};
use causeway_stowaway::laptop::State;
use causeway_stowaway::laptop::door::Visitor;
use tokio::time::timeout;

use super::connection::{Connection, Door};

/// How long a daemon that is there may need to be connected again: a link that broke is back in a moment.
const AGAIN: Duration = Duration::from_secs(6);

/// A door that can be gone through.
pub(crate) struct Open {
    visitor: Visitor,
    _door: Door,
}

impl Open {
    /// The door of a connection.
    ///
    /// # Errors
    /// When its directory is gone.
    pub(crate) fn of(connection: &Connection) -> anyhow::Result<Self> {
        let door = connection.door()?;
        Ok(Self { visitor: Visitor::new(door.path()), _door: door })
    }

    pub(crate) fn visitor(&self) -> &Visitor {
        &self.visitor
    }
}

/// The door of a connection that is up.
///
/// # Errors
/// When it is not; the text says why, and what to do.
pub(crate) async fn connected(connection: &Connection) -> anyhow::Result<(Open, State)> {
    connection.running()?;
    let open = Open::of(connection)?;
    let is_up = |state: &State| state.connection.is_some();
    let label = connection.settings.label();
    match timeout(AGAIN, open.visitor.wait_for(is_up)).await {
        Ok(Ok(state)) => Ok((open, state)),
        Ok(Err(error)) => {
            // It ended since, or has not come so far.
            connection.running()?;
            Err(anyhow!("the daemon of {label} is not ready: {error}; see {}", connection.log().display()))
        }
        Err(_) => {
            let complaint = open.visitor.state().await.map(|state| state.complaint());
            bail!(
                "{}; the daemon of {label} goes on trying, `causeway connections` shows how it is",
                complaint.unwrap_or_else(|error| error.to_string())
            )
        }
    }
}
