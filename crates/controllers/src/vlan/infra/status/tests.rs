use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::json;

use super::*;
use crate::vlan::infra::{fixture, validate::validate};

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn waiting() -> State {
    State::Waiting {
        reason: Reason::Progressing,
        message: "DNSServer lab-dns has not reported whether it is ready".into(),
    }
}

fn all_valid() -> Valid {
    validate(&fixture::infra(&fixture::all()), &Observed::default())
}

fn condition<'a>(status: &'a InfraStatus, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|condition| condition.type_ == kind).unwrap()
}

#[test]
fn ready_follows_the_children() {
    let valid = all_valid();
    let first = next(&InfraStatus::default(), &valid, &[State::Ready, waiting(), State::Ready], 1, &at(10));
    let ready = condition(&first, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "ComponentsNotReady"));
    assert!(ready.message.starts_with("waiting for DNS (DNSServer lab-dns"), "{}", ready.message);

    let second = next(&first, &valid, &[State::Ready, State::Ready, State::Ready], 1, &at(20));
    assert_eq!(condition(&second, "Ready").status, "True");
    assert_eq!(condition(&second, "DHCPReady").last_transition_time, at(10), "it did not change");
    assert_eq!(condition(&second, "DNSReady").last_transition_time, at(20));
    assert_eq!(
        next(&second, &valid, &[State::Ready, State::Ready, State::Ready], 1, &at(30)),
        second,
        "nothing moved"
    );
    insta::assert_yaml_snapshot!(second);
}

#[test]
fn a_removed_component_leaves_no_trace() {
    let before =
        next(&InfraStatus::default(), &all_valid(), &[State::Ready, State::Ready, State::Ready], 1, &at(10));
    let infra = fixture::infra(&json!({ "dns": { "baseDomain": "example.com" }, "proxy": {} }));
    let valid = validate(&infra, &Observed::default());
    let after = next(&before, &valid, &[State::Disabled, State::Ready, State::Ready], 2, &at(20));
    assert!(!after.conditions.iter().any(|condition| condition.type_ == "DHCPReady"));
    assert!(!after.component_status.as_ref().unwrap().dhcp_ready);
    let addresses = after.addresses.as_ref().unwrap();
    assert_eq!((&addresses.dhcp, &addresses.range_start), (&None, &None));
    assert_eq!(condition(&after, "Ready").message, "ready: DNS, proxy");
}

#[test]
fn problems_are_told_with_field_and_remedy_and_addresses_stay() {
    let before =
        next(&InfraStatus::default(), &all_valid(), &[State::Ready, State::Ready, State::Ready], 1, &at(10));
    let infra = fixture::infra(&json!({
        "dhcp": { "serverIP": "10.0.0.2" }, "dns": { "baseDomain": "example.com" }, "proxy": {},
    }));
    let valid = validate(&infra, &Observed::default());
    let after = next(&before, &valid, &[State::Invalid, State::Ready, State::Ready], 2, &at(20));
    for kind in ["Ready", "Accepted"] {
        let condition = condition(&after, kind);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "InvalidSpec"));
        assert!(
            condition.message.starts_with("spec.infraComponents.dhcp.serverIP: "),
            "{}",
            condition.message
        );
    }
    assert_eq!(condition(&after, "DNSReady").status, "True");
    assert_eq!(after.addresses, before.addresses, "the child still has its address");
    let notes = notes(&before, &after);
    assert!(
        notes.iter().any(|note| note.reason == "InvalidSpec" && note.severity == Severity::Warning),
        "{notes:?}"
    );
}

#[test]
fn events_tell_of_changes_and_not_of_waiting() {
    let valid = all_valid();
    let starting = next(&InfraStatus::default(), &valid, &[waiting(), waiting(), waiting()], 1, &at(10));
    assert_eq!(notes(&InfraStatus::default(), &starting), []);
    let ready = next(&starting, &valid, &[State::Ready, State::Ready, State::Ready], 1, &at(20));
    let reasons: Vec<_> = notes(&starting, &ready).into_iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["DHCPReady", "DNSReady", "ProxyReady", "Ready"]);
    let broken = next(&ready, &valid, &[State::Ready, waiting(), State::Ready], 1, &at(30));
    let reasons: Vec<_> = notes(&ready, &broken).into_iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["NotReady"]);
}

#[test]
fn a_childs_old_answer_does_not_count() {
    let child = |generation, observed| ChildReport {
        generation,
        conditions: vec![Condition {
            type_: "Ready".into(),
            status: "True".into(),
            reason: "Ready".into(),
            message: String::new(),
            observed_generation: Some(observed),
            last_transition_time: at(1),
        }],
    };
    assert_eq!(by_child("DNSServer lab-dns", Some(&child(2, 2))), State::Ready);
    assert!(matches!(by_child("DNSServer lab-dns", Some(&child(3, 2))), State::Waiting { .. }));
    assert!(matches!(by_child("DNSServer lab-dns", None), State::Waiting { .. }));
}
