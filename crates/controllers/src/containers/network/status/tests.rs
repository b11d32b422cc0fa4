use std::collections::BTreeMap;

use causeway_containers::{Attached, Subnet};

use super::*;

fn now() -> Time {
    Time(jiff::Timestamp::UNIX_EPOCH)
}

fn network(id: &str) -> Network {
    Network {
        id: id.into(),
        name: "blue".into(),
        driver: "bridge".into(),
        ipv6: false,
        internal: false,
        subnets: vec![
            Subnet { range: "10.1.0.0/24".into(), gateway: "10.1.0.1".parse().ok() },
            Subnet { range: "fd00::/64".into(), gateway: None },
        ],
        labels: BTreeMap::new(),
        containers: vec![Attached { id: "c1".into(), name: "web".into(), ipv4: None, ipv6: None }],
    }
}

fn valid(mode: NetworkMode) -> Valid {
    Valid { name: "blue".into(), mode, ipv6: false, subnet: None }
}

fn unavailable() -> Availability {
    Availability::Unavailable { why: "no container runtime answers: /run/x.sock (no such file)".into() }
}

fn after(previous: &ContainerNetworkStatus, result: &ReconcileResult) -> ContainerNetworkStatus {
    // A connected runtime cannot be made out of nothing; what is looked at here does not depend on it.
    let availability = match result {
        ReconcileResult::RuntimeUnavailable => unavailable(),
        _ => Availability::Searching,
    };
    let valid = valid(NetworkMode::Session);
    let input = Input { generation: 2, availability: &availability, valid: Some(&valid), result };
    next(previous, &input, &now())
}

fn ready(status: &ContainerNetworkStatus) -> (String, String, String) {
    let found = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn tells_what_the_runtime_says() {
    let status = after(&ContainerNetworkStatus::default(), &ReconcileResult::Running(network("4f")));
    assert_eq!(status.state, Some(ContainerNetworkState::Running));
    assert_eq!((status.id.as_deref(), status.network_name.as_deref()), (Some("4f"), Some("blue")));
    assert_eq!((status.driver.as_deref(), status.ipv6), (Some("bridge"), Some(false)));
    assert_eq!(status.subnets, ["10.1.0.0/24", "fd00::/64"]);
    assert_eq!(status.gateways, ["10.1.0.1"]);
    assert_eq!(status.container_ids, ["c1"]);
    assert_eq!((status.observed_generation, status.message.as_ref()), (Some(2), None));
    assert_eq!(ready(&status).0, "True");
    assert_eq!(
        after(&status, &ReconcileResult::Running(network("4f"))),
        status,
        "nothing new, nothing written"
    );
}

#[test]
fn keeps_what_was_seen_while_nobody_can_look() {
    let seen = after(&ContainerNetworkStatus::default(), &ReconcileResult::Running(network("4f")));
    let status = after(&seen, &ReconcileResult::RuntimeUnavailable);
    assert_eq!((status.state, status.id.as_deref()), (Some(ContainerNetworkState::Running), Some("4f")));
    let (ready, reason, message) = ready(&status);
    assert_eq!((ready.as_str(), reason.as_str()), ("False", "RuntimeUnavailable"));
    assert!(message.contains("/run/x.sock"), "{message}");
    let available = conditions::find(&status.conditions, ConditionType::RuntimeAvailable).unwrap();
    assert_eq!(available.status, "False");
    let first = after(&ContainerNetworkStatus::default(), &ReconcileResult::RuntimeUnavailable);
    assert_eq!(first.state, Some(ContainerNetworkState::Pending));
}

#[test]
fn every_result_has_its_state_and_reason() {
    let previous = ContainerNetworkStatus::default();
    for (result, state, reason) in [
        (ReconcileResult::Missing, ContainerNetworkState::NotFound, "NotFound"),
        (ReconcileResult::Removed, ContainerNetworkState::Removed, "ReconciliationSucceeded"),
        (ReconcileResult::Conflict("taken".into()), ContainerNetworkState::FailedToStart, "Conflict"),
        (ReconcileResult::InUse(network("4f")), ContainerNetworkState::Pending, "CleanupFailed"),
        (
            ReconcileResult::Invalid(Problem { path: "spec.networkName".into(), message: "no".into() }),
            ContainerNetworkState::FailedToStart,
            "InvalidSpec",
        ),
    ] {
        let status = after(&previous, &result);
        assert_eq!((status.state, ready(&status).1.as_str()), (Some(state), reason), "{result:?}");
    }
}

#[test]
fn missing_ipv6_is_said_and_unasked_ipv6_is_not() {
    let asked = Valid { ipv6: true, ..valid(NetworkMode::Existing) };
    let previous = ContainerNetworkStatus::default();
    let input = Input {
        generation: 1,
        availability: &Availability::Searching,
        valid: Some(&asked),
        result: &ReconcileResult::Running(network("4f")),
    };
    let status = next(&previous, &input, &now());
    let (is_ready, reason, message) = ready(&status);
    assert_eq!((is_ready.as_str(), reason.as_str()), ("False", "Conflict"));
    assert!(message.contains("spec.ipv6"), "{message}");
    assert_eq!(status.state, Some(ContainerNetworkState::Running), "it is there all the same");
    let with = Network { ipv6: true, ..network("4f") };
    assert_eq!(ready(&after(&previous, &ReconcileResult::Running(with))).0, "True");
}

#[test]
fn says_which_containers_are_in_the_way() {
    let mut busy = network("4f");
    assert_eq!(in_use(&busy), "network blue waits for its containers to go: web");
    busy.containers = (0..12)
        .map(|n| Attached { id: n.to_string(), name: format!("c{n}"), ipv4: None, ipv6: None })
        .collect();
    assert!(in_use(&busy).ends_with("c9, 2 more"), "{}", in_use(&busy));
    busy.containers.clear();
    assert!(in_use(&busy).contains("do not run"));
}

#[test]
fn an_object_that_goes_says_what_it_waits_for() {
    let seen = after(&ContainerNetworkStatus::default(), &ReconcileResult::Running(network("4f")));
    let input = Input {
        generation: 3,
        availability: &unavailable(),
        valid: None,
        result: &ReconcileResult::RuntimeUnavailable,
    };
    let status = deleting(&seen, &input, &now());
    let going = conditions::find(&status.conditions, ConditionType::Deleting).unwrap();
    assert_eq!((going.status.as_str(), going.reason.as_str()), ("True", "RuntimeUnavailable"));
    assert_eq!(status.id.as_deref(), Some("4f"));

    let input = Input {
        generation: 3,
        availability: &Availability::Searching,
        valid: None,
        result: &ReconcileResult::InUse(network("4f")),
    };
    let status = deleting(&status, &input, &now());
    let going = conditions::find(&status.conditions, ConditionType::Deleting).unwrap();
    assert_eq!(going.reason, "CleanupFailed");
    assert!(going.message.contains("web"), "{}", going.message);
    assert_eq!(status.state, Some(ContainerNetworkState::Running));
}

fn reasons(previous: &ContainerNetworkStatus, next: &ContainerNetworkStatus) -> Vec<String> {
    notes(previous, next).into_iter().map(|note| note.reason).collect()
}

#[test]
fn tells_each_thing_once() {
    let nothing = ContainerNetworkStatus::default();
    let running = after(&nothing, &ReconcileResult::Running(network("4f")));
    assert_eq!(reasons(&nothing, &running), ["Ready"]);
    assert!(reasons(&running, &running).is_empty());
    let away = after(&running, &ReconcileResult::RuntimeUnavailable);
    assert_eq!(reasons(&running, &away), ["RuntimeUnavailable"], "not once more for the summary");
    let other = after(&running, &ReconcileResult::Running(network("5a")));
    assert_eq!(reasons(&running, &other), ["NetworkReplaced"]);
}
