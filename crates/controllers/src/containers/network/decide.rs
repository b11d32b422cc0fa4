//! What to do about a network: from what is asked for and what the runtime has, nothing else.

use causeway_api::NetworkMode;
use causeway_containers::{Network, labels};

use super::{KIND, validate::Valid};

/// A network that the runtime has, and who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The network.
    pub(crate) network: Network,
    maker: Maker,
}

/// Who made a network.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Maker {
    /// The object that looks at it.
    Own,
    /// Another object of ours; it may be gone.
    Sibling { uid: String, name: String },
    /// An object of ours that is gone.
    Orphan,
    /// Somebody else, or an object that meant it to stay.
    Stranger,
}

impl Found {
    /// Reads from the labels who made `network`, as the object `uid` of this instance sees it.
    pub(crate) fn of(network: Network, uid: &str, instance: &str) -> Self {
        let label = |key| network.labels.get(key).map(String::as_str);
        let maker = match label(labels::OWNER) {
            Some(owner) if owner == uid => Maker::Own,
            Some(owner) if label(labels::KIND) == Some(KIND) && label(labels::INSTANCE) == Some(instance) => {
                let name = label(labels::NAME).unwrap_or("?").to_owned();
                Maker::Sibling { uid: owner.to_owned(), name }
            }
            _ => Maker::Stranger,
        };
        Self { network, maker }
    }

    /// Whether the object that looks at it made it.
    pub(crate) fn is_own(&self) -> bool {
        self.maker == Maker::Own
    }

    /// The UID of the other object of ours that made it.
    pub(crate) fn sibling(&self) -> Option<&str> {
        match &self.maker {
            Maker::Sibling { uid, .. } => Some(uid),
            _ => None,
        }
    }

    /// That object is gone.
    pub(crate) fn orphan(&mut self) {
        let is_kept = self.network.labels.get(labels::PERSISTENT).is_some_and(|value| value == "true");
        self.maker = if is_kept { Maker::Stranger } else { Maker::Orphan };
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Make it.
    Make,
    /// It is there and stays.
    Keep(Network),
    /// Remove what an earlier object left, then make it.
    Replace(Network),
    /// Remove it.
    Remove(Network),
    /// It is gone, as it should be.
    Rest,
    /// It should be there, and someone else has to make it.
    Miss,
    /// It belongs to someone else; why this object keeps off.
    Refuse(String),
}

/// Decides.
pub(crate) fn decide(valid: &Valid, found: Option<Found>) -> Decision {
    let name = &valid.name;
    let Some(Found { network, maker }) = found else {
        return match valid.mode {
            NetworkMode::Session | NetworkMode::Persistent => Decision::Make,
            NetworkMode::Existing => Decision::Miss,
            NetworkMode::Cleanup => Decision::Rest,
        };
    };
    match (valid.mode, maker) {
        (NetworkMode::Persistent | NetworkMode::Existing, _) | (NetworkMode::Session, Maker::Own) => {
            Decision::Keep(network)
        }
        (NetworkMode::Session, Maker::Orphan) => Decision::Replace(network),
        (NetworkMode::Session, Maker::Stranger) => Decision::Refuse(format!(
            "network {name} exists and was not made for this object, which would remove it in the end: use it with mode existing or persistent, or choose another networkName"
        )),
        (NetworkMode::Session, Maker::Sibling { name: other, .. }) => Decision::Refuse(format!(
            "network {name} belongs to ContainerNetwork {other}: use it with mode existing, or choose another networkName"
        )),
        (NetworkMode::Cleanup, Maker::Sibling { name: other, .. }) => Decision::Refuse(format!(
            "network {name} is not removed because ContainerNetwork {other} wants it: delete that one first"
        )),
        (NetworkMode::Cleanup, Maker::Own | Maker::Orphan | Maker::Stranger) => Decision::Remove(network),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn network(labels: &[(&str, &str)]) -> Network {
        Network {
            id: "4f".into(),
            name: "blue".into(),
            driver: "bridge".into(),
            ipv6: false,
            internal: false,
            subnets: Vec::new(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            containers: Vec::new(),
        }
    }

    fn found(labels: &[(&str, &str)]) -> Found {
        Found::of(network(labels), "own", "here")
    }

    fn of_sibling() -> Found {
        found(&[
            (labels::OWNER, "other"),
            (labels::KIND, KIND),
            (labels::INSTANCE, "here"),
            (labels::NAME, "default/b"),
        ])
    }

    fn decision(mode: NetworkMode, found: Option<Found>) -> Decision {
        decide(&Valid { name: "blue".into(), mode, ipv6: false }, found)
    }

    #[test]
    fn labels_say_who_made_it() {
        assert!(found(&[(labels::OWNER, "own")]).is_own(), "also after a move to another data directory");
        assert_eq!(of_sibling().sibling(), Some("other"));
        for strange in [
            vec![],
            vec![(labels::OWNER, "other"), (labels::KIND, KIND), (labels::INSTANCE, "elsewhere")],
            vec![(labels::OWNER, "other"), (labels::KIND, "Pod"), (labels::INSTANCE, "here")],
        ] {
            let found = found(&strange);
            assert_eq!(found.maker, Maker::Stranger, "{strange:?}");
        }
    }

    #[test]
    fn what_is_missing_is_made_by_those_modes_that_make() {
        assert_eq!(decision(NetworkMode::Session, None), Decision::Make);
        assert_eq!(decision(NetworkMode::Persistent, None), Decision::Make);
        assert_eq!(decision(NetworkMode::Existing, None), Decision::Miss);
        assert_eq!(decision(NetworkMode::Cleanup, None), Decision::Rest);
    }

    #[test]
    fn a_session_keeps_only_its_own() {
        let own = found(&[(labels::OWNER, "own")]);
        assert!(matches!(decision(NetworkMode::Session, Some(own)), Decision::Keep(_)));
        let Decision::Refuse(why) = decision(NetworkMode::Session, Some(found(&[]))) else { panic!() };
        assert!(why.contains("mode existing or persistent"), "{why}");
        let Decision::Refuse(why) = decision(NetworkMode::Session, Some(of_sibling())) else { panic!() };
        assert!(why.contains("default/b"), "{why}");
    }

    #[test]
    fn what_a_dead_object_left_is_replaced_unless_it_was_meant_to_stay() {
        let mut left = of_sibling();
        left.orphan();
        assert!(matches!(decision(NetworkMode::Session, Some(left)), Decision::Replace(_)));
        let mut kept = of_sibling();
        kept.network.labels.insert(labels::PERSISTENT.into(), "true".into());
        kept.orphan();
        assert!(matches!(decision(NetworkMode::Session, Some(kept)), Decision::Refuse(_)));
    }

    #[test]
    fn persistent_and_existing_take_what_is_there() {
        for mode in [NetworkMode::Persistent, NetworkMode::Existing] {
            for found in [found(&[]), of_sibling()] {
                assert!(matches!(decision(mode, Some(found)), Decision::Keep(_)), "{mode:?}");
            }
        }
    }

    #[test]
    fn clean_up_takes_all_but_what_another_object_wants() {
        assert!(matches!(decision(NetworkMode::Cleanup, Some(found(&[]))), Decision::Remove(_)));
        assert!(matches!(decision(NetworkMode::Cleanup, Some(of_sibling())), Decision::Refuse(_)));
        let mut left = of_sibling();
        left.orphan();
        assert!(matches!(decision(NetworkMode::Cleanup, Some(left)), Decision::Remove(_)));
    }
}
