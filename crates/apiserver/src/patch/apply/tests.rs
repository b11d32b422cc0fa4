use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply;
use crate::error::{ApiError, Reason};
use crate::patch::fixtures::{DEPLOYMENT, SERVICE, T1, T2, T3, applier, entry, owned, updater};
use crate::patch::managed::owners;
use crate::patch::typed::Position;
use crate::patch::typed::compare::compare;
use crate::patch::{Manager, track_update};
use crate::schema::Node;

fn deploy(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}, "spec": spec})
}

fn service(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
}

fn pod(spec: Value) -> Value {
    deploy(json!({"template": {"spec": spec}}))
}

fn try_apply(
    live: Option<&Value>,
    applied: &Value,
    who: &str,
    now: &str,
    force: bool,
) -> Result<Value, ApiError> {
    let version = applied["apiVersion"].as_str().unwrap();
    let schema: &Node = if version == "v1" { &SERVICE } else { &DEPLOYMENT };
    apply(live, applied, schema, &applier(who, version, now), force)
}

fn applied(live: Option<&Value>, document: &Value, who: &str, now: &str) -> Value {
    try_apply(live, document, who, now, false).unwrap()
}

fn updated(live: Option<&Value>, new: &Value, who: &str, now: &str) -> Value {
    let mut new = new.clone();
    track_update(live, &mut new, &DEPLOYMENT, &updater(who, "apps/v1", now));
    new
}

#[test]
fn creates_and_owns_what_is_named() {
    let object =
        applied(None, &deploy(json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}})), "me", T1);
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{"manager": "me", "operation": "Apply", "apiVersion": "apps/v1", "time": T1,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:selector": {}}}}])
    );
    assert_eq!(object["spec"]["replicas"], 1);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let document =
        pod(json!({"containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}]}));
    let mut live = applied(None, &document, "me", T1);
    // What the server fills in belongs to nobody.
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    live["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
    live["metadata"]["uid"] = json!("1");
    live["metadata"]["creationTimestamp"] = json!(T1);
    let mut again = document;
    again["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(applied(Some(&live), &again, "me", T2), live);
}

#[test]
fn another_value_for_an_owned_field_is_a_conflict() {
    let live = applied(None, &deploy(json!({"replicas": 1, "paused": false})), "me", T1);
    let error = try_apply(Some(&live), &deploy(json!({"replicas": 2})), "you", T2, false).unwrap_err();
    assert_eq!((error.code, error.reason), (409, Reason::Conflict));
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"me\": .spec.replicas");
    let details = serde_json::to_value(error.details.unwrap()).unwrap();
    assert_eq!(
        details,
        json!({"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"me\"",
            "field": ".spec.replicas"}]})
    );
}

#[test]
fn conflicts_are_listed_by_manager() {
    let live = applied(None, &deploy(json!({"replicas": 1, "paused": false})), "me", T1);
    let mut edited = live.clone();
    edited["spec"]["strategy"] = json!({"type": "Recreate"});
    let live = updated(Some(&live), &edited, "kubectl-edit", T2);
    let document = deploy(json!({"replicas": 2, "paused": true, "strategy": {"type": "RollingUpdate"}}));
    let error = try_apply(Some(&live), &document, "you", T3, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 3 conflicts: conflicts with \"kubectl-edit\" using apps/v1:\n- .spec.strategy.type\n\
         conflicts with \"me\":\n- .spec.paused\n- .spec.replicas"
    );
    assert_eq!(error.details.unwrap().causes[0].message, "conflict with \"kubectl-edit\" using apps/v1");
}

#[test]
fn an_equal_value_is_owned_together() {
    let live = applied(None, &deploy(json!({"replicas": 1})), "me", T1);
    let shared = applied(Some(&live), &deploy(json!({"replicas": 1})), "you", T2);
    for who in ["me", "you"] {
        assert_eq!(owned(&shared, who, "Apply"), &json!({"f:spec": {"f:replicas": {}}}));
    }
    assert_eq!(entry(&shared, "me", "Apply").unwrap()["time"], T1);
    // One of two owners lets go: the field stays. The last one lets go: it is removed.
    let left = applied(Some(&shared), &deploy(json!({"paused": true})), "me", T3);
    assert_eq!(left["spec"], json!({"replicas": 1, "paused": true}));
    let gone = applied(Some(&left), &deploy(json!({})), "you", T3);
    assert_eq!(gone["spec"], json!({"paused": true}));
    assert_eq!(entry(&gone, "you", "Apply").map(|e| &e["fieldsV1"]), Some(&json!({"f:spec": {}})));
}

#[test]
fn force_takes_the_field() {
    let live = applied(None, &deploy(json!({"replicas": 1, "paused": false})), "me", T1);
    let taken = try_apply(Some(&live), &deploy(json!({"replicas": 2})), "you", T2, true).unwrap();
    assert_eq!(taken["spec"]["replicas"], 2);
    assert_eq!(owned(&taken, "me", "Apply"), &json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(owned(&taken, "you", "Apply"), &json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn an_updater_owns_too() {
    let live = updated(None, &deploy(json!({"replicas": 1})), "kubectl-create", T1);
    let kept = applied(Some(&live), &deploy(json!({"replicas": 1})), "me", T2);
    // The applier lets go, the updater still owns it.
    let kept = applied(Some(&kept), &deploy(json!({"paused": true})), "me", T3);
    assert_eq!(kept["spec"], json!({"replicas": 1, "paused": true}));
    let error = try_apply(Some(&kept), &deploy(json!({"replicas": 5})), "me", T3, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-create\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn a_field_that_is_no_longer_named_is_removed_with_its_empty_parents() {
    let mut document = deploy(json!({"replicas": 1, "strategy": {"type": "Recreate"}}));
    document["metadata"]["labels"] = json!({"a": "1", "b": "2"});
    let live = applied(None, &document, "me", T1);
    document["metadata"]["labels"] = json!({"b": "2"});
    document["spec"] = json!({"replicas": 1});
    let less = applied(Some(&live), &document, "me", T2);
    assert_eq!(less["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(less["spec"], json!({"replicas": 1}));
    document["metadata"].as_object_mut().unwrap().retain(|k, _| k != "labels");
    let none = applied(Some(&less), &document, "me", T3);
    assert_eq!(none["metadata"].get("labels"), None);
}

#[test]
fn a_struct_that_is_emptied_keeps_what_others_own() {
    let strategy = |value: Value| deploy(json!({ "strategy": value }));
    let mine = json!({"type": "a"});
    for (written_since, document, expected) in [
        (None, json!(null), json!(null)),
        (None, json!({}), json!({})),
        (Some(json!({"type": "a", "other": 1})), json!({}), json!({"other": 1})),
        (Some(json!({"type": "a", "other": 1})), json!(null), json!({"other": 1})),
        (Some(json!({"type": "b", "other": 1})), json!(null), json!({"type": "b", "other": 1})),
    ] {
        let mut live = applied(None, &strategy(mine.clone()), "me", T1);
        if let Some(value) = written_since {
            let mut new = live.clone();
            new["spec"]["strategy"] = value;
            live = updated(Some(&live), &new, "controller", T2);
        }
        let object = applied(Some(&live), &strategy(document.clone()), "me", T3);
        assert_eq!(object["spec"]["strategy"], expected, "{document}");
        assert_eq!(owned(&object, "me", "Apply"), &json!({"f:spec": {"f:strategy": {}}}));
        assert_eq!(applied(Some(&object), &strategy(document), "me", T3), object);
    }
}

#[test]
fn list_items_come_and_go_by_key() {
    let two = pod(json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}));
    let mut live = applied(None, &two, "me", T1);
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    let sidecar = pod(json!({"containers": [{"name": "side", "image": "s:1"}]}));
    let live = applied(Some(&live), &sidecar, "injector", T2);
    let one = pod(json!({"containers": [{"name": "b", "image": "b:2"}]}));
    let live = applied(Some(&live), &one, "me", T3);
    let names: Vec<_> = live["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["image"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("b", "b:2"), ("side", "s:1")]);
    assert_eq!(
        owned(&live, "me", "Apply"),
        &json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"b\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}})
    );
}

#[test]
fn an_item_stays_when_another_applier_owns_it() {
    let mine = pod(json!({"containers": [{"name": "a", "image": "a:1"}]}));
    let theirs = pod(json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}));
    let live = applied(None, &mine, "me", T1);
    let live = applied(Some(&live), &theirs, "you", T2);
    let live = applied(Some(&live), &pod(json!({"terminationGracePeriodSeconds": 1})), "me", T3);
    assert_eq!(
        live["spec"]["template"]["spec"],
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}], "terminationGracePeriodSeconds": 1})
    );
}

#[test]
fn applied_order_wins_and_other_items_keep_their_place() {
    let list = |names: &[&str]| {
        pod(json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}))
    };
    for (live, document, expected) in [
        (vec!["a", "b", "c"], vec!["c", "x", "a"], vec!["b", "c", "x", "a"]),
        (vec!["a", "c"], vec!["x", "c"], vec!["a", "x", "c"]),
        (vec!["a", "b"], vec!["b", "a"], vec!["b", "a"]),
        (vec!["a", "b"], vec!["c"], vec!["a", "b", "c"]),
        (vec!["a", "b", "c"], vec!["b"], vec!["a", "b", "c"]),
    ] {
        let object = updated(None, &list(&live), "creator", T1);
        let object = applied(Some(&object), &list(&document), "me", T2);
        assert_eq!(object["spec"], list(&expected)["spec"], "{live:?} + {document:?}");
    }
}

#[test]
fn a_left_out_key_with_a_default_is_the_same_item() {
    let live = applied(None, &service(json!({"ports": [{"port": 53, "name": "dns"}]})), "me", T1);
    let tcp = "k:{\"port\":53,\"protocol\":\"TCP\"}";
    assert_eq!(
        owned(&live, "me", "Apply"),
        &json!({"f:spec": {"f:ports": {tcp: {".": {}, "f:name": {}, "f:port": {}}}}})
    );
    let mut defaulted = live.clone();
    defaulted["spec"]["ports"][0]["protocol"] = json!("TCP");
    let both = service(
        json!({"ports": [{"port": 53, "name": "dns"}, {"port": 53, "protocol": "UDP", "name": "dns-u"}]}),
    );
    let object = applied(Some(&defaulted), &both, "me", T2);
    assert_eq!(
        object["spec"]["ports"],
        json!([{"port": 53, "name": "dns", "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "name": "dns-u"}])
    );
    let only_udp = service(json!({"ports": [{"port": 53, "protocol": "UDP", "name": "dns-u"}]}));
    let object = applied(Some(&object), &only_udp, "me", T3);
    assert_eq!(object["spec"]["ports"], json!([{"port": 53, "protocol": "UDP", "name": "dns-u"}]));
}

#[test]
fn sets_merge_by_value() {
    let live = applied(None, &service(json!({"externalIPs": ["1.1.1.1", "2.2.2.2"]})), "me", T1);
    let live = applied(Some(&live), &service(json!({"externalIPs": ["2.2.2.2", "3.3.3.3"]})), "you", T2);
    assert_eq!(live["spec"]["externalIPs"], json!(["1.1.1.1", "2.2.2.2", "3.3.3.3"]));
    assert_eq!(
        owned(&live, "you", "Apply"),
        &json!({"f:spec": {"f:externalIPs": {"v:\"2.2.2.2\"": {}, "v:\"3.3.3.3\"": {}}}})
    );
    let live = applied(Some(&live), &service(json!({})), "me", T3);
    assert_eq!(live["spec"]["externalIPs"], json!(["2.2.2.2", "3.3.3.3"]));
}

#[test]
fn atomic_maps_are_taken_whole() {
    let live = applied(None, &service(json!({"selector": {"a": "1"}})), "me", T1);
    assert_eq!(owned(&live, "me", "Apply"), &json!({"f:spec": {"f:selector": {}}}));
    let other = service(json!({"selector": {"b": "2"}}));
    let error = try_apply(Some(&live), &other, "you", T2, false).unwrap_err();
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"me\": .spec.selector");
    let forced = try_apply(Some(&live), &other, "you", T2, true).unwrap();
    assert_eq!(forced["spec"]["selector"], json!({"b": "2"}));
    assert_eq!(owned(&forced, "me", "Apply"), &Value::Null);
}

#[test]
fn status_is_applied_through_its_subresource() {
    let live = applied(None, &deploy(json!({"replicas": 1})), "me", T1);
    let mut document = deploy(json!({"replicas": 9}));
    document["metadata"]["labels"] = json!({"not": "here"});
    document["status"] = json!({"replicas": 1, "conditions": [{"type": "Ready", "status": "True"}]});
    let manager = Manager { subresource: "status", ..applier("me", "apps/v1", T2) };
    let object = apply(Some(&live), &document, &DEPLOYMENT, &manager, false).unwrap();
    assert_eq!(object["spec"], json!({"replicas": 1}));
    assert_eq!(object["metadata"].get("labels"), None);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[1]["subresource"]), (2, &json!("status")));
    assert_eq!(
        entries[1]["fieldsV1"],
        json!({"f:status": {"f:replicas": {}, "f:conditions": {
            "k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}}}})
    );
    let mut other = document;
    other["status"] = json!({"replicas": 2});
    let manager = Manager { name: "you", ..manager };
    let error = apply(Some(&object), &other, &DEPLOYMENT, &manager, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"me\" with subresource \"status\": .status.replicas"
    );
}

#[test]
fn an_object_without_entries_belongs_to_before_first_apply() {
    let live = deploy(json!({"replicas": 1, "paused": false}));
    let error = try_apply(Some(&live), &deploy(json!({"replicas": 2})), "me", T1, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    let object = applied(Some(&live), &deploy(json!({"replicas": 1})), "me", T1);
    assert_eq!(
        owned(&object, "before-first-apply", "Update"),
        &json!({"f:spec": {".": {}, "f:paused": {}, "f:replicas": {}}})
    );
}

#[test]
fn an_update_takes_a_field_from_its_applier() {
    let live = applied(None, &deploy(json!({"replicas": 1, "paused": false})), "me", T1);
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(5);
    let live = updated(Some(&live), &scaled, "autoscaler", T2);
    assert_eq!(owned(&live, "me", "Apply"), &json!({"f:spec": {"f:paused": {}}}));
    // Giving it up now leaves it to its new owner.
    let object = applied(Some(&live), &deploy(json!({"paused": false})), "me", T3);
    assert_eq!(object, live);
}

#[test]
fn a_list_that_became_atomic_is_folded() {
    let mut live = applied(None, &service(json!({"selector": {"a": "1"}})), "me", T1);
    live["metadata"]["managedFields"][0]["fieldsV1"] =
        json!({"f:spec": {"f:selector": {".": {}, "f:a": {}}}});
    let object = applied(Some(&live), &service(json!({"selector": {"a": "1"}})), "me", T2);
    assert_eq!(owned(&object, "me", "Apply"), &json!({"f:spec": {"f:selector": {}}}));
}

#[test]
fn kubectl_may_take_over_what_it_applied_from_the_client() {
    let mut sent = deploy(json!({"replicas": 1}));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    sent["metadata"]["annotations"] = json!({annotation: sent.to_string()});
    let live = updated(None, &sent, "kubectl-client-side-apply", T1);
    let document = deploy(json!({"replicas": 3}));
    assert_eq!(try_apply(Some(&live), &document, "flux", T2, false).unwrap_err().code, 409);
    let object = applied(Some(&live), &document, "kubectl", T2);
    assert_eq!(object["spec"]["replicas"], 3);
    let text = object["metadata"]["annotations"][annotation].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), document);
    // Someone else has changed it since: that is a conflict again.
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(5);
    let scaled = updated(Some(&live), &scaled, "autoscaler", T2);
    let error = try_apply(Some(&scaled), &document, "kubectl", T3, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"autoscaler\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn refuses_what_cannot_be_applied() {
    let mut managed = deploy(json!({}));
    managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let error = try_apply(None, &managed, "me", T1, false).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "metadata.managedFields must be nil"));

    let error = apply(None, &deploy(json!({})), &DEPLOYMENT, &applier("me", "v1", T1), false).unwrap_err();
    assert_eq!(
        error.message,
        "Incorrect version specified in apply patch. Specified patch version: apps/v1, expected: v1"
    );

    for (spec, why) in [
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"containers": [{"image": "a"}]}),
            ".spec.template.spec.containers: element 0: associative list with keys has an element that omits all \
             key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
    ] {
        let error = try_apply(None, &pod(spec), "me", T1, false).unwrap_err();
        let opening = "failed to create typed patch object (d/web; apps/v1, Kind=Deployment): ";
        assert_eq!(error.message, format!("{opening}{why}"));
    }
}

fn specs() -> impl Strategy<Value = Value> {
    let names = proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..4).prop_shuffle();
    let port = (1_i64..4, proptest::option::of(proptest::sample::select(vec!["TCP", "UDP"])));
    let ports = proptest::collection::btree_map(port, 0_i64..3, 0..3);
    let ips = proptest::sample::subsequence(vec!["1", "2", "3"], 0..3).prop_shuffle();
    (names, ports, ips, 0..3_i64).prop_map(|(names, ports, ips, n)| {
        let mut seen = std::collections::BTreeSet::new();
        let ports: Vec<_> = ports
            .into_iter()
            .filter(|((port, protocol), _)| seen.insert((*port, protocol.unwrap_or("TCP"))))
            .map(|((port, protocol), target)| {
                let mut item = json!({"port": port, "targetPort": target});
                if let Some(protocol) = protocol {
                    item["protocol"] = json!(protocol);
                }
                item
            })
            .collect();
        let selector: serde_json::Map<_, _> = names.iter().map(|n| ((*n).to_owned(), json!("x"))).collect();
        let mut document = service(json!({"ports": ports, "externalIPs": ips, "selector": selector}));
        document["metadata"]["labels"] = json!(
            names
                .iter()
                .map(|k| (*k, n.to_string()))
                .collect::<Vec<_>>()
                .into_iter()
                .collect::<std::collections::BTreeMap<_, _>>()
        );
        document
    })
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(first in specs(), second in specs(), third in specs()) {
        let live = try_apply(None, &first, "me", T1, true).unwrap();
        let live = try_apply(Some(&live), &second, "you", T1, true).unwrap();
        let once = try_apply(Some(&live), &third, "me", T2, true).unwrap();
        let twice = try_apply(Some(&once), &third, "me", T3, false).unwrap();
        prop_assert_eq!(&twice, &once);
        let round = try_apply(Some(&twice), &third, "me", T3, true).unwrap();
        prop_assert_eq!(round.to_string(), twice.to_string());
    }

    #[test]
    fn a_lone_applier_gets_what_it_applied(first in specs(), second in specs()) {
        let live = try_apply(None, &first, "me", T1, false).unwrap();
        let mut object = try_apply(Some(&live), &second, "me", T2, false).unwrap();
        let expected = try_apply(None, &second, "me", T2, false).unwrap();
        // Empty lists are not owned, so an applier cannot take them away again.
        let spec = object["spec"].as_object_mut().unwrap();
        for key in ["ports", "externalIPs"] {
            spec.entry(key).or_insert_with(|| json!([]));
        }
        prop_assert_eq!(&object["spec"], &expected["spec"]);
        prop_assert_eq!(&object["metadata"]["labels"], &expected["metadata"]["labels"]);
    }

    #[test]
    fn nobody_owns_what_is_not_there(
        writes in proptest::collection::vec((0..3_usize, any::<bool>(), specs()), 1..6),
    ) {
        let mut live: Option<Value> = None;
        for (who, by_apply, document) in writes {
            let name = ["me", "you", "them"][who];
            let object = if by_apply {
                try_apply(live.as_ref(), &document, name, T1, true).unwrap()
            } else {
                let mut new = document;
                track_update(live.as_ref(), &mut new, &SERVICE, &updater(name, "v1", T2));
                new
            };
            let there = compare(&json!({}), &object, Position::root(&SERVICE)).changed;
            for owner in owners(&object).unwrap() {
                prop_assert!(owner.fields.is_subset(&there), "{} in {object}", owner.manager);
            }
            live = Some(object);
        }
    }
}
