//! What the runtime has: the network of the name that is asked for, and who made it.

use causeway_api::ContainerNetwork;
use causeway_containers::{ErrorKind, Network, Runtime, labels};

use super::{KIND, uid, validate::Valid};
use crate::{containers::leftovers::Sweeper, framework::report};

/// A network that the runtime has, and who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExistingNetwork {
    /// The network.
    pub(crate) network: Network,
    /// Who made it.
    pub(crate) ownership: Ownership,
}

/// Who made a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The object that looks at it.
    Own,
    /// Another object of ours; it may be gone.
    Other { uid: String, name: String },
    /// An object of ours that is gone.
    Orphan,
    /// An object of ours that is gone and meant it to stay.
    Kept,
    /// Nobody of ours.
    Foreign,
}

impl ExistingNetwork {
    /// Reads from the labels who made `network`, as the object `uid` of this instance sees it.
    pub(crate) fn of(network: Network, uid: &str, instance: &str) -> Self {
        let label = |key| network.labels.get(key).map(String::as_str);
        let ownership = match label(labels::OWNER) {
            Some(owner) if owner == uid => Ownership::Own,
            Some(owner) if label(labels::KIND) == Some(KIND) && label(labels::INSTANCE) == Some(instance) => {
                let name = label(labels::NAME).unwrap_or("?").to_owned();
                Ownership::Other { uid: owner.to_owned(), name }
            }
            _ => Ownership::Foreign,
        };
        Self { network, ownership }
    }

    /// Whether the object that looks at it made it.
    pub(crate) fn is_own(&self) -> bool {
        self.ownership == Ownership::Own
    }

    /// The UID of the other object of ours that made it.
    pub(crate) fn other_owner(&self) -> Option<&str> {
        match &self.ownership {
            Ownership::Other { uid, .. } => Some(uid),
            _ => None,
        }
    }

    /// That object is gone.
    pub(crate) fn set_orphaned(&mut self) {
        let is_kept = self.network.labels.get(labels::PERSISTENT).is_some_and(|value| value == "true");
        self.ownership = if is_kept { Ownership::Kept } else { Ownership::Orphan };
    }
}

/// The network of that name, if there is one; `sweeper` knows which other objects of this instance live.
pub(crate) async fn observe(
    object: &ContainerNetwork,
    valid: &Valid,
    runtime: &Runtime,
    instance: &str,
    sweeper: &Sweeper<ContainerNetwork>,
) -> Result<Option<ExistingNetwork>, causeway_containers::Error> {
    let network = match runtime.network(&valid.name).await {
        // Runtimes also take the beginning of an id for a name.
        Ok(network) if network.name != valid.name => return Ok(None),
        Ok(network) => network,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut existing = ExistingNetwork::of(network, uid(object), instance);
    if let Some(other) = existing.other_owner() {
        // While the API server cannot say whether that object lives, its network is left alone.
        let is_alive = match sweeper.living().await {
            Ok(living) => living.contains(other),
            Err(error) => {
                tracing::warn!(error = report::chain(&error), "cannot tell who owns a network");
                true
            }
        };
        if !is_alive {
            existing.set_orphaned();
        }
    }
    Ok(Some(existing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::network::fixture::{existing, of_other_object};

    #[test]
    fn labels_say_who_made_it() {
        assert!(existing(&[(labels::OWNER, "own")]).is_own(), "also after a move to another data directory");
        assert_eq!(of_other_object().other_owner(), Some("other"));
        for strange in [
            vec![],
            vec![(labels::OWNER, "other"), (labels::KIND, KIND), (labels::INSTANCE, "elsewhere")],
            vec![(labels::OWNER, "other"), (labels::KIND, "Pod"), (labels::INSTANCE, "here")],
        ] {
            let seen = existing(&strange);
            assert_eq!(seen.ownership, Ownership::Foreign, "{strange:?}");
        }
    }
}
