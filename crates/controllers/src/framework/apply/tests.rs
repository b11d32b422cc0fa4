use serde_json::json;

use super::*;

const KIND: ChildKind =
    ChildKind { group: "causeway.dev", version: "v1alpha1", kind: "DNSServer", plural: "dnsservers" };

fn owner(uid: &str) -> Owner {
    let reference = OwnerReference {
        api_version: "causeway.dev/v1alpha1".into(),
        kind: "Infra".into(),
        name: "lab".into(),
        uid: uid.into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Owner { reference, namespace: Some("clusters".into()) }
}

fn wanted(spec: &Value) -> Wanted {
    let body = json!({"metadata": {"name": "lab-dns"}, "spec": spec});
    Wanted { kind: KIND, elsewhere: None, name: "lab-dns".into(), body: body.as_object().cloned().unwrap() }
}

fn live(body: Map<String, Value>) -> DynamicObject {
    serde_json::from_value(Value::Object(body)).unwrap()
}

#[test]
fn stamps_owner_labels_and_digest() {
    insta::assert_yaml_snapshot!(wanted(&json!({"dnsPort": 53})).stamped(&owner("u-1")));
}

#[test]
fn an_object_elsewhere_says_by_labels_whose_it_is() {
    let remote = Wanted { elsewhere: Some("tools".into()), ..wanted(&json!({})) };
    let stamped = live(remote.stamped(&owner("u-1")));
    assert_eq!(stamped.metadata.owner_references, None, "a reference across namespaces would be collected");
    assert_eq!(stamped.metadata.namespace.as_deref(), Some("tools"));
    let labels = stamped.labels();
    for (label, value) in [
        (names::LABEL_OWNER_KIND, "Infra"),
        (names::LABEL_OWNER_NAMESPACE, "clusters"),
        (names::LABEL_OWNER_NAME, "lab"),
        (names::LABEL_INVENTORY, "u-1"),
    ] {
        assert_eq!(labels.get(label).map(String::as_str), Some(value), "{label}");
    }
}

#[test]
fn an_applied_object_is_left_alone_until_either_side_changes() {
    let owner = owner("u-1");
    let stamped = wanted(&json!({"dnsPort": 53, "image": "a"})).stamped(&owner);

    let mut with_foreign_fields = stamped.clone();
    object_in(&mut with_foreign_fields, "spec").insert("extra".into(), json!(true));
    object_in(object_in(&mut with_foreign_fields, "metadata"), "labels").insert("team".into(), json!("x"));
    assert!(
        compare::is_applied(&live(with_foreign_fields), &stamped),
        "foreign fields are not ours to judge"
    );

    let mut edited = stamped.clone();
    object_in(&mut edited, "spec").insert("dnsPort".into(), json!(54));
    assert!(!compare::is_applied(&live(edited), &stamped), "a hand edit of our field must go back");

    let narrower = wanted(&json!({"dnsPort": 53})).stamped(&owner);
    assert!(!compare::is_applied(&live(stamped), &narrower), "a field no longer wanted must be removed");
}

#[test]
fn names_the_holder_of_a_foreign_object() {
    let mine = owner("u-1");
    let held = |uid: &str, name: &str| {
        let mut other = owner(uid);
        other.reference.name = name.into();
        live(wanted(&json!({})).stamped(&other))
    };
    assert_eq!(foreign_holder(&held("u-1", "lab"), &mine), None);
    assert_eq!(foreign_holder(&held("u-2", "other"), &mine).unwrap(), "Infra other");
    assert_eq!(
        foreign_holder(&held("u-0", "lab"), &mine).unwrap(),
        "an earlier Infra lab that is being cleaned up"
    );

    let mut orphan = held("u-0", "lab");
    orphan.metadata.owner_references = None;
    assert_eq!(foreign_holder(&orphan, &mine), None, "what Causeway made and was orphaned may be adopted");
    orphan.metadata.labels = None;
    assert_eq!(foreign_holder(&orphan, &mine).unwrap(), "nobody");
}

#[test]
fn a_pass_asks_for_the_most_eager_retry() {
    let refused = Error::Apply {
        kind: "DHCPServer",
        name: "clusters/lab-dhcp".into(),
        source: kube::Error::Api(kube::core::Status::failure("bad", "Invalid").with_code(422).boxed()),
    };
    let foreign =
        Error::Foreign { kind: "DNSServer", name: "clusters/lab-dns".into(), holder: "nobody".into() };
    let report = Report {
        results: vec![
            (KIND, "a".into(), Err(foreign)),
            (KIND, "b".into(), Err(refused)),
            (KIND, "c".into(), Ok(Action::Unchanged)),
        ],
    };
    assert_eq!(*report.of(KIND, "c").unwrap().as_ref().unwrap(), Action::Unchanged);
    let error = report.into_result().unwrap_err();
    assert_eq!(error.retry(), error::Retry::Backoff);
    assert_eq!(error.to_string(), "failed to bring 2 of 3 objects to the desired state");
}
