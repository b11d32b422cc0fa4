use serde_json::json;

use super::{CoreEvent, GroupEvent, group_row};
use crate::builtin::print;
use crate::resource::Strategy;

#[test]
fn both_groups_show_one_event() {
    let stored = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"}, "reason": "Started", "message": "hello",
        "source": {"component": "node", "host": "h"}, "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:01:00Z", "count": 3, "type": "Normal",
        "reportingComponent": "", "reportingInstance": ""
    });
    let mut event = stored.clone();
    GroupEvent.convert_from_storage(&mut event);
    assert_eq!(event["apiVersion"], "events.k8s.io/v1");
    assert_eq!(event["regarding"]["name"], "p");
    assert_eq!(event["note"], "hello");
    assert_eq!(event["deprecatedSource"]["component"], "node");
    assert_eq!(event["deprecatedCount"], 3);
    assert!(event["involvedObject"].is_null() && event["count"].is_null());
    let now = "2026-01-01T00:02:00Z".parse().unwrap();
    assert_eq!(group_row(&event, now), print::core_event(&stored, now));
    GroupEvent.convert_to_storage(&mut event);
    assert_eq!(event, stored);
}

#[test]
fn shows_what_happened_to_what() {
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let old = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started",
        "message": " hello ", "type": "Normal", "source": {"component": "node", "host": "h"}, "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:04:00Z"});
    assert_eq!(
        print::core_event(&old, now),
        [
            json!("60s"),
            json!("Normal"),
            json!("Started"),
            json!("pod/p"),
            json!(""),
            json!("node, h"),
            json!("hello"),
            json!("5m"),
            json!(3),
            json!("e")
        ]
    );
    let new = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "eventTime":
        "2026-01-01T00:03:00.000000Z", "reportingComponent": "c", "series": {"count": 7, "lastObservedTime":
        "2026-01-01T00:04:50.000000Z"}});
    let row = print::core_event(&new, now);
    assert_eq!(
        [&row[0], &row[3], &row[5], &row[7], &row[8]],
        [&json!("10s"), &json!("pod"), &json!("c"), &json!("2m"), &json!(7)]
    );
}

#[test]
fn refuses_bad_events_in_kubernetes_words() {
    let foreign = json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}});
    let got = CoreEvent.validate(&foreign, None);
    assert_eq!(
        got[0].to_string(),
        "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"
    );
    let bare = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "type": "Loud"});
    let got: Vec<_> = GroupEvent.validate(&bare, None).iter().map(ToString::to_string).collect();
    assert_eq!(got, ["eventTime: Required value", "type: Invalid value: \"\": has invalid value: Loud"]);
}
