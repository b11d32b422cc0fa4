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
    assert_eq!(decide(&Situation { is_whole: false, ..held }), Step::Take, "a mixture selects nothing");
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
