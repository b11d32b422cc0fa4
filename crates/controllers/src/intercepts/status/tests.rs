use super::*;

fn request(generation: i64) -> InterceptRequest {
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "InterceptRequest",
        "metadata": {"name": "me", "namespace": "shop", "generation": generation},
        "spec": {"target": "deploy/web", "targetContainerPort": 80, "workstation": "alice", "destinationPort": 1},
    }))
    .unwrap()
}

fn is_installed(status: &InterceptRequestStatus) -> bool {
    let said = conditions::find(&status.conditions, ConditionType::Installed);
    said.is_some_and(|said| said.status == "True")
}

#[test]
fn what_another_adds_to_a_carrier_does_not_end_who_has_it() {
    let accepted = Verdict::Accepted(Box::new(Accepted {
        target: causeway_translate::intercept::TargetRef::parse("deploy/web").unwrap(),
        target_uid: "u".to_owned(),
        services: vec!["web".to_owned()],
        container: None,
        missed: Vec::new(),
        workstation: causeway_translate::gateway::kinds::ObjectRef::new("shop", "alice"),
        workstation_uid: "a".to_owned(),
        takes: "all".to_owned(),
        owner: None,
        is_held: false,
        held_from: None,
    }));
    let facts = |is_current| Facts {
        verdict: &accepted,
        holds: [("Service web".to_owned(), Hold::Taken)].into(),
        is_current,
        is_connected: true,
        is_left: true,
        failure: None,
        originals: BTreeMap::new(),
    };
    let now = crate::framework::status::now();
    let fresh = status(&request(1), &InterceptRequestStatus::default(), &facts(false), &now);
    assert!(!is_installed(&fresh), "its own part is not there yet");
    let there = status(&request(1), &fresh, &facts(true), &now);
    assert!(is_installed(&there) && there.active);
    let beside = status(&request(1), &there, &facts(false), &now);
    assert!(is_installed(&beside) && beside.active, "{:?}", beside.conditions);
    let edited = status(&request(2), &beside, &facts(false), &now);
    assert!(!is_installed(&edited), "what it asks for now is not there yet");
}

#[test]
fn missing_rights_are_told() {
    let verdict = Verdict::Pending("the objects of its namespace are being read".to_owned());
    let facts = Facts {
        verdict: &verdict,
        holds: BTreeMap::new(),
        is_current: true,
        is_connected: false,
        is_left: false,
        failure: Some(Finding::no(Reason::MissingPrivileges, "the operator may not list pods")),
        originals: BTreeMap::new(),
    };
    let now = crate::framework::status::now();
    let said = status(&request(1), &InterceptRequestStatus::default(), &facts, &now);
    let ready = conditions::find(&said.conditions, ConditionType::Ready).unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "MissingPrivileges"));
}
