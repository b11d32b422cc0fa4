//! What to do about a network. Pure: from what is asked for and what the runtime has.

use causeway_api::{ContainerNetwork, NetworkMode};
use causeway_containers::{Network, NetworkSpec, Subnet, labels};

use super::{
    KIND, key,
    observe::{ExistingNetwork, Ownership},
    uid,
    validate::Valid,
};

/// What to do to the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make it.
    Create,
    /// It is there and stays.
    Keep(Network),
    /// Remove what an earlier object left, then make it.
    Replace(Network),
    /// Remove it.
    Remove(Network),
    /// It is gone, as it should be.
    None,
    /// It should be there, and someone else has to make it.
    ReportMissing,
    /// It belongs to someone else; why this object keeps off.
    Refuse(String),
}

/// What to do about the network of that name, as the runtime has it or not.
pub(crate) fn desired(valid: &Valid, existing: Option<ExistingNetwork>) -> Action {
    let name = &valid.name;
    let Some(ExistingNetwork { network, ownership }) = existing else {
        return match valid.mode {
            NetworkMode::Session | NetworkMode::Persistent => Action::Create,
            NetworkMode::Existing => Action::ReportMissing,
            NetworkMode::Cleanup => Action::None,
        };
    };
    // Whatever its name: on the host's own network every port of a container is one of the host.
    if matches!(network.driver.as_str(), "host" | "null") && valid.mode != NetworkMode::Cleanup {
        return Action::Refuse(format!(
            "{name} is not a network that containers share (its driver is {}): choose another networkName",
            network.driver
        ));
    }
    if let Some(subnet) = valid.subnet.as_ref().map(ToString::to_string)
        && !network.subnets.iter().any(|known| known.range == subnet)
        && !matches!(ownership, Ownership::Orphan)
    {
        let has: Vec<_> = network.subnets.iter().map(|known| known.range.as_str()).collect();
        return Action::Refuse(format!(
            "network {name} exists with {} and not with spec.subnet {subnet}: remove it, or leave subnet out",
            has.join(" and ")
        ));
    }
    match (valid.mode, ownership) {
        (NetworkMode::Persistent | NetworkMode::Existing, _) | (NetworkMode::Session, Ownership::Own) => {
            Action::Keep(network)
        }
        (NetworkMode::Session, Ownership::Orphan) => Action::Replace(network),
        (NetworkMode::Session, Ownership::Kept | Ownership::Foreign) => Action::Refuse(format!(
            "network {name} exists and was not made for this object, which would remove it in the end: use it with mode existing or persistent, or choose another networkName"
        )),
        (NetworkMode::Session, Ownership::Other { name: other, .. }) => Action::Refuse(format!(
            "network {name} belongs to ContainerNetwork {other}: use it with mode existing, or choose another networkName"
        )),
        (NetworkMode::Cleanup, Ownership::Other { name: other, .. }) => Action::Refuse(format!(
            "network {name} is not removed because ContainerNetwork {other} wants it: delete that one first"
        )),
        (NetworkMode::Cleanup, Ownership::Foreign) => Action::Refuse(format!(
            "network {name} was not made by this control plane, so it is not removed: who owns it removes it in the runtime, with `network rm {name}`"
        )),
        (NetworkMode::Cleanup, Ownership::Own | Ownership::Orphan | Ownership::Kept) => {
            Action::Remove(network)
        }
    }
}

/// What to do when the object goes: the network goes with it, if the object made it.
pub(crate) fn on_deletion(existing: Option<ExistingNetwork>) -> Action {
    match existing {
        Some(existing) if existing.is_own() => Action::Remove(existing.network),
        _ => Action::None,
    }
}

/// What a network is made from; its labels say which object of which instance made it.
pub(crate) fn network_spec(object: &ContainerNetwork, valid: &Valid, instance: &str) -> NetworkSpec {
    let owner = labels::Owner { uid: uid(object), kind: KIND, name: &key(object), instance };
    let mut labels = owner.labels();
    if valid.mode == NetworkMode::Persistent {
        labels.insert(labels::PERSISTENT.to_owned(), "true".to_owned());
    }
    let subnets = valid.subnet.iter().map(|range| Subnet { range: range.to_string(), gateway: None });
    NetworkSpec {
        name: valid.name.clone(),
        ipv6: valid.ipv6,
        subnets: subnets.collect(),
        labels,
        ..NetworkSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::network::fixture::{existing, of_other_object};

    fn action(mode: NetworkMode, existing: Option<ExistingNetwork>) -> Action {
        desired(&Valid { name: "blue".into(), mode, ipv6: false, subnet: None }, existing)
    }

    #[test]
    fn what_is_missing_is_made_by_those_modes_that_make() {
        assert_eq!(action(NetworkMode::Session, None), Action::Create);
        assert_eq!(action(NetworkMode::Persistent, None), Action::Create);
        assert_eq!(action(NetworkMode::Existing, None), Action::ReportMissing);
        assert_eq!(action(NetworkMode::Cleanup, None), Action::None);
    }

    #[test]
    fn a_session_keeps_only_its_own() {
        let own = existing(&[(labels::OWNER, "own")]);
        assert!(matches!(action(NetworkMode::Session, Some(own)), Action::Keep(_)));
        let Action::Refuse(why) = action(NetworkMode::Session, Some(existing(&[]))) else { panic!() };
        assert!(why.contains("mode existing or persistent"), "{why}");
        let Action::Refuse(why) = action(NetworkMode::Session, Some(of_other_object())) else { panic!() };
        assert!(why.contains("default/b"), "{why}");
    }

    #[test]
    fn what_a_dead_object_left_is_replaced_unless_it_was_meant_to_stay() {
        let mut left = of_other_object();
        left.set_orphaned();
        assert!(matches!(action(NetworkMode::Session, Some(left)), Action::Replace(_)));
        let mut kept = of_other_object();
        kept.network.labels.insert(labels::PERSISTENT.into(), "true".into());
        kept.set_orphaned();
        assert!(matches!(action(NetworkMode::Session, Some(kept.clone())), Action::Refuse(_)));
        assert!(matches!(action(NetworkMode::Cleanup, Some(kept)), Action::Remove(_)));
    }

    #[test]
    fn persistent_and_existing_take_what_is_there() {
        for mode in [NetworkMode::Persistent, NetworkMode::Existing] {
            for network in [existing(&[]), of_other_object()] {
                assert!(matches!(action(mode, Some(network)), Action::Keep(_)), "{mode:?}");
            }
        }
    }

    #[test]
    fn clean_up_takes_what_causeway_made_here_and_no_other_object_wants() {
        let Action::Refuse(why) = action(NetworkMode::Cleanup, Some(existing(&[]))) else { panic!() };
        assert!(why.contains("was not made by this control plane"), "{why}");
        let elsewhere = [(labels::OWNER, "x"), (labels::KIND, KIND), (labels::INSTANCE, "elsewhere")];
        assert!(matches!(action(NetworkMode::Cleanup, Some(existing(&elsewhere))), Action::Refuse(_)));
        assert!(matches!(action(NetworkMode::Cleanup, Some(of_other_object())), Action::Refuse(_)));
        let mut left = of_other_object();
        left.set_orphaned();
        assert!(matches!(action(NetworkMode::Cleanup, Some(left)), Action::Remove(_)));
    }

    #[test]
    fn a_network_of_the_host_or_of_another_range_is_refused() {
        for driver in ["host", "null"] {
            let mut host = existing(&[]);
            host.network.driver = driver.into();
            assert!(matches!(action(NetworkMode::Existing, Some(host)), Action::Refuse(_)), "{driver}");
        }
        let valid = Valid {
            name: "blue".into(),
            mode: NetworkMode::Persistent,
            ipv6: false,
            subnet: Some("172.30.0.0/24".parse().unwrap()),
        };
        let mut there = existing(&[]);
        let of = |range: &str| vec![Subnet { range: range.into(), gateway: None }];
        there.network.subnets = of("172.31.0.0/16");
        let Action::Refuse(why) = desired(&valid, Some(there.clone())) else { panic!() };
        assert!(why.contains("172.31.0.0/16") && why.contains("172.30.0.0/24"), "{why}");
        there.network.subnets = of("172.30.0.0/24");
        assert!(matches!(desired(&valid, Some(there)), Action::Keep(_)));
    }

    #[test]
    fn an_object_that_goes_takes_only_its_own_network_along() {
        let own = existing(&[(labels::OWNER, "own")]);
        assert!(matches!(on_deletion(Some(own)), Action::Remove(_)));
        for kept in [None, Some(existing(&[])), Some(of_other_object())] {
            assert_eq!(on_deletion(kept), Action::None);
        }
    }
}
