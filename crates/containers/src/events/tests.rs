use bollard::models::EventActor;

use super::*;

fn message(typ: EventMessageTypeEnum, action: &str, attributes: &[(&str, &str)]) -> EventMessage {
    let attributes = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    EventMessage {
        typ: Some(typ),
        action: Some(action.to_owned()),
        actor: Some(EventActor { id: Some("4f".to_owned()), attributes: Some(attributes) }),
        time_nano: Some(1_700_000_000_123_456_789),
        ..EventMessage::default()
    }
}

#[test]
fn reads_the_end_of_a_container_in_both_dialects() {
    for (action, code) in [("die", "exitCode"), ("died", "containerExitCode")] {
        let event =
            translate(message(EventMessageTypeEnum::CONTAINER, action, &[("name", "web"), (code, "137")]));
        let Some(Event::Container { name, action, exit_code, .. }) = event else { panic!("{event:?}") };
        assert_eq!((name.as_str(), action, exit_code), ("web", ContainerAction::Died, Some(137)));
    }
}

#[test]
fn reads_who_joined_a_network() {
    let attributes = [("name", "blue"), ("container", "4f2a")];
    let event = translate(message(EventMessageTypeEnum::NETWORK, "connect", &attributes));
    let Some(Event::Network { name, action, container, .. }) = event else { panic!("{event:?}") };
    assert_eq!((name.as_str(), action), ("blue", NetworkAction::Attached));
    assert_eq!(container.as_deref(), Some("4f2a"));
}

#[test]
fn asks_again_from_just_after_the_last_event() {
    let last = after(&message(EventMessageTypeEnum::CONTAINER, "start", &[])).unwrap();
    assert_eq!(stamp(last), "1700000000.123456790");
}
