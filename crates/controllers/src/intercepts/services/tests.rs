use super::*;

fn ready_to_take() -> Situation {
    Situation {
        wanted: true,
        is_known: true,
        carrier_serves: true,
        carrier_is_current: true,
        carrier_is_found: true,
        originals_are_followed: true,
        originals_serve: true,
        ..Situation::default()
    }
}

#[test]
fn a_service_moves_only_when_its_carrier_is_ready_and_knows_the_way_back() {
    assert_eq!(decide(&ready_to_take()), Step::Take);
    for spoil in [
        |now: &mut Situation| now.carrier_serves = false,
        |now: &mut Situation| now.carrier_is_current = false,
        |now: &mut Situation| now.carrier_is_found = false,
        |now: &mut Situation| now.originals_are_followed = false,
    ] {
        let mut now = ready_to_take();
        spoil(&mut now);
        assert!(matches!(decide(&now), Step::Stay(Hold::Taking(_))), "{now:?}");
    }
    // Pods that are replaced, or run an older plan for a moment, are no reason to go back.
    let held = Situation {
        is_ours: true,
        is_whole: true,
        leads_to_carrier: true,
        carrier_is_current: false,
        ..ready_to_take()
    };
    assert_eq!(decide(&held), Step::Stay(Hold::Taken));
    let mixed = Situation { is_whole: false, ..held };
    assert_eq!(decide(&mixed), Step::Take, "a mixture selects nothing");
    // Nor do the pods of its carrier have a label that its owner has just thought of.
    let unknown = Situation { carrier_serves: false, ..mixed };
    assert!(matches!(decide(&unknown), Step::GiveBack(Hold::Taking(_))), "{:?}", decide(&unknown));
}

#[test]
fn traffic_never_stops_with_its_carrier() {
    let held = Situation { is_ours: true, is_whole: true, carrier_serves: false, ..ready_to_take() };
    assert!(matches!(decide(&held), Step::GiveBack(Hold::GivenBack(_))));
    // Nobody would be better off.
    let alone = Situation { originals_serve: false, ..held };
    assert!(matches!(decide(&alone), Step::Stay(_)), "{alone:?}");
}

#[test]
fn a_carrier_that_fails_again_and_again_is_given_time() {
    let mut memory = Memory::new(Selector::new());
    memory.collapse();
    assert!(!memory.rests(), "once may be chance");
    memory.collapse();
    assert!(memory.rests());
    let resting = Situation { rests: true, ..ready_to_take() };
    assert!(matches!(decide(&resting), Step::Stay(Hold::GivenBack(_))));
}

#[test]
fn who_sets_it_back_is_let_alone_for_a_while() {
    let by = "argocd-controller".to_owned();
    let fight = |is_over| Some(Fight { is_over, by: by.clone() });
    let lost = Situation { fight: fight(false), has_proof: true, ..ready_to_take() };
    assert_eq!(decide(&lost), Step::Stay(Hold::TakenBack(by.clone())));
    assert_eq!(decide(&Situation { fight: fight(true), ..lost }), Step::Take);
}

#[test]
fn what_is_not_wanted_any_more_is_put_back_and_nothing_is_left() {
    let held = Situation { wanted: false, is_ours: true, is_known: true, ..Situation::default() };
    assert_eq!(decide(&held), Step::GiveBack(Hold::Freeing));
    assert_eq!(decide(&Situation { is_known: false, ..held.clone() }), Step::Stay(Hold::Lost));
    let back = Situation { is_ours: false, leads_to_some_carrier: true, ..held.clone() };
    assert_eq!(decide(&back), Step::Stay(Hold::Freeing), "endpoints follow");
    let by_others = Situation { is_ours: false, has_proof: true, ..held.clone() };
    assert_eq!(decide(&by_others), Step::Clean);
    assert_eq!(decide(&Situation { is_ours: false, ..held }), Step::Stay(Hold::Free));
}

#[test]
fn what_its_owner_changes_of_a_part_is_part_of_what_is_put_back() {
    let service = |selector: Value| -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"selector": selector}})).unwrap()
    };
    let selector = |value: Value| -> Selector { serde_json::from_value(value).unwrap() };
    let before = selector(json!({"app": "web", "tier": "front"}));
    let ours = "web-carrier.causeway";
    for (live, taken, wholly, back) in [
        (json!({"app": ours, "tier": ours}), true, true, json!({"app": "web", "tier": "front"})),
        (json!({"app": ours}), true, true, json!({"app": "web"})),
        (json!({"app": ours, "tier": "back"}), true, false, json!({"app": "web", "tier": "back"})),
        (json!({"app": "web", "tier": "front"}), false, false, json!({"app": "web", "tier": "front"})),
        (json!({}), false, false, json!({})),
    ] {
        let service = service(live.clone());
        assert_eq!((is_taken(&service), is_wholly_taken(&service)), (taken, wholly), "{live}");
        assert_eq!(undone(&service, &before), selector(back), "{live}");
    }
    assert!(!is_taken(&service(json!(null))));
}

fn service(version: &str, selector: &Value) -> Service {
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": version});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"selector": selector}})).unwrap()
}

/// With an API server that refuses every change, and shows this Service.
fn services(live: Service) -> Services {
    let answer = move |request: http::Request<kube::client::Body>| {
        let (code, body) = if request.method() == http::Method::GET {
            (200, serde_json::to_vec(&live).unwrap())
        } else {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "a policy forbids this", "reason": "Invalid", "code": 422});
            (422, serde_json::to_vec(&status).unwrap())
        };
        let answer = http::Response::builder().status(code).body(kube::client::Body::from(body));
        async move { answer }
    };
    Services::new(Client::new(tower::service_fn(answer), "shop"), "tests")
}

#[tokio::test]
async fn a_change_that_is_refused_is_told_apart_from_one_that_came_too_late() {
    let seen = service("7", &json!({"app": "web"}));
    let refused = services(seen.clone()).patch(&seen, unchanged(&seen)).await;
    assert!(matches!(refused, Err(Error::ChangeTarget { .. })), "{refused:?}");
    let other = service("8", &json!({"app": "other"}));
    assert_eq!(services(other).patch(&seen, unchanged(&seen)).await.unwrap(), None);
    let mut annotated = seen.clone();
    annotated.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(services(annotated).patch(&seen, unchanged(&seen)).await.unwrap(), None);
}

#[tokio::test]
async fn what_the_caches_show_of_before_the_last_write_is_not_believed() {
    let stale = service("7", &json!({"app": "web-carrier.causeway"}));
    let services = services(stale.clone());
    let original: Selector = [("app".to_owned(), "web".to_owned())].into();
    let given_back = Memory { written: Some(8), ..Memory::new(original.clone()) };
    lock(&services.memory).insert("u".to_owned(), given_back);
    let keys = Keys::for_tests();
    assert_eq!(services.original(&keys, &stale, None), Some(original));
    assert!(!lock(&services.memory)["u"].is_taken, "it was given back by ourselves");
    let newer = service("9", &json!({"app": "web-carrier.causeway"}));
    services.original(&keys, &newer, None);
    assert!(lock(&services.memory)["u"].is_taken);
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_over_wakes_nobody_again() {
    let services = services(service("7", &json!({})));
    let mut memory = Memory::new(Selector::new());
    memory.not_before = Some(Instant::now() + Duration::from_secs(5));
    lock(&services.memory).insert("u".to_owned(), memory);
    assert_eq!(services.again(Instant::now()), Some(Duration::from_secs(5)));
    let began = Instant::now();
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(services.again(began), Some(Duration::ZERO), "it ended during this look");
    assert_eq!(services.again(Instant::now()), None);
}

#[test]
fn annotations_of_others_are_not_replaced() {
    let bare = service("7", &json!({"app": "web"}));
    let steps = begun_annotations(&bare.metadata);
    assert_eq!(steps[0], json!({"op": "test", "path": "/metadata/annotations", "value": null}));
    assert_eq!(steps.len(), 2);
}
