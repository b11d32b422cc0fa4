use super::*;

fn at(second: i64) -> Time {
    Time(jiff::Timestamp::from_second(second).unwrap())
}

#[test]
fn moves_the_transition_time_only_with_the_status() {
    struct Case {
        name: &'static str,
        to: (Status, Reason, &'static str, i64),
        changed: bool,
        transition: i64,
    }
    let cases = [
        Case { name: "same", to: (Status::True, Reason::Ready, "ok", 1), changed: false, transition: 10 },
        Case { name: "message", to: (Status::True, Reason::Ready, "fine", 1), changed: true, transition: 10 },
        Case { name: "reason", to: (Status::True, Reason::Accepted, "ok", 1), changed: true, transition: 10 },
        Case {
            name: "generation",
            to: (Status::True, Reason::Ready, "ok", 2),
            changed: true,
            transition: 10,
        },
        Case {
            name: "to false",
            to: (Status::False, Reason::NotReady, "ok", 1),
            changed: true,
            transition: 20,
        },
        Case {
            name: "to unknown",
            to: (Status::Unknown, Reason::Ready, "ok", 1),
            changed: true,
            transition: 20,
        },
    ];
    for case in cases {
        let mut list = Vec::new();
        assert!(set(&mut list, ConditionType::Ready, Status::True, Reason::Ready, "ok", 1, &at(10)));
        let (status, reason, message, generation) = case.to;
        let changed = set(&mut list, ConditionType::Ready, status, reason, message, generation, &at(20));
        assert_eq!(changed, case.changed, "{}", case.name);
        assert_eq!(list.len(), 1, "{}", case.name);
        assert_eq!(list[0].last_transition_time, at(case.transition), "{}", case.name);
        assert_eq!(list[0].status, status.as_str(), "{}", case.name);
        assert_eq!(list[0].observed_generation, Some(generation), "{}", case.name);
    }
}

#[test]
fn sorts_by_type_and_keeps_foreign_conditions() {
    let mut list = vec![Condition {
        type_: "example.org/Audited".to_owned(),
        status: "True".to_owned(),
        reason: "Yes".to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: at(1),
    }];
    for kind in [ConditionType::Ready, ConditionType::Accepted, ConditionType::ProxyReady] {
        assert!(set(&mut list, kind, Status::True, Reason::Ready, "", 1, &at(2)));
    }
    let types: Vec<_> = list.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Accepted", "ProxyReady", "Ready", "example.org/Audited"]);
    assert!(remove(&mut list, ConditionType::Accepted));
    assert!(!remove(&mut list, ConditionType::Accepted));
    assert_eq!(list.len(), 3);
}

#[test]
fn an_answer_for_an_older_generation_is_not_true() {
    let mut list = Vec::new();
    set(&mut list, ConditionType::Ready, Status::True, Reason::Ready, "", 3, &at(1));
    assert!(is_true(&list, ConditionType::Ready, 3));
    assert!(!is_true(&list, ConditionType::Ready, 4));
    assert!(!is_true(&list, ConditionType::Accepted, 3));
}

#[test]
fn words_are_unique_and_valid_in_kubernetes() {
    let mut reasons: Vec<_> = Reason::ALL.iter().map(|r| r.as_str()).collect();
    assert!(reasons.iter().all(|r| r.chars().all(|c| c.is_ascii_alphanumeric()) && r.len() < 64));
    let count = reasons.len();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), count);
    assert_eq!(ConditionType::DnsAliasReady.to_string(), "DnsAliasReady");
}
