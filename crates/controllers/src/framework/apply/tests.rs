use causeway_api::Infra;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;

use super::*;
use crate::framework::kinds::CONFIG_MAP;

const KIND: ChildKind = ChildKind {
    group: "causeway.dev",
    version: "v1alpha1",
    kind: "DNSServer",
    plural: "dnsservers",
    older: &[],
};

fn owner(uid: &str) -> Owner {
    let reference = OwnerReference {
        api_version: "causeway.dev/v1alpha1".into(),
        kind: "Infra".into(),
        name: "lab".into(),
        uid: uid.into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Owner { reference: Some(reference), namespace: Some("clusters".into()) }
}

fn wanted(spec: &Value) -> Wanted {
    let body = json!({"metadata": {"name": "lab-dns"}, "spec": spec});
    Wanted {
        kind: KIND,
        elsewhere: None,
        name: "lab-dns".into(),
        body: body.as_object().cloned().unwrap(),
        is_once: false,
    }
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
        other.reference.as_mut().unwrap().name = name.into();
        live(wanted(&json!({})).stamped(&other))
    };
    assert_eq!(foreign_holder(&held("u-1", "lab"), &mine, true), None);
    assert_eq!(foreign_holder(&held("u-2", "other"), &mine, true).unwrap(), "Infra other");
    assert_eq!(
        foreign_holder(&held("u-0", "lab"), &mine, true).unwrap(),
        "an earlier Infra lab that is being cleaned up"
    );
    let only_named = foreign_holder(&held("u-1", "lab"), &mine, false).unwrap();
    assert_eq!(only_named, "nobody, though it names this object as its controller");

    let mut orphan = held("u-0", "lab");
    orphan.metadata.owner_references = None;
    assert_eq!(foreign_holder(&orphan, &mine, true), None, "what was made here and orphaned may be adopted");
    assert_eq!(foreign_holder(&orphan, &mine, false).unwrap(), "nobody", "a label alone makes nothing ours");

    let elsewhere = |name: &str| {
        let mut other = owner("u-0");
        other.reference.as_mut().unwrap().name = name.into();
        live(Wanted { elsewhere: Some("tools".into()), ..wanted(&json!({})) }.stamped(&other))
    };
    assert_eq!(foreign_holder(&elsewhere("lab"), &mine, true), None);
    assert_eq!(foreign_holder(&elsewhere("other"), &mine, true).unwrap(), "Infra clusters/other");
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

/// The cache still shows the object that was ours; by now the name is somebody else's.
#[tokio::test]
async fn an_object_made_anew_in_the_gap_of_a_watch_is_neither_overwritten_nor_deleted() {
    let cluster = causeway_testkit::Cluster::start().await;
    let maps: Api<ConfigMap> = cluster.api();
    let applier = Applier::new(cluster.operator.clone(), "causeway-test");
    let network = json!({"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "networkAttachmentDefinition": "v"});
    let infra: Infra = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": "lab"},
        "spec": {"networkConfig": network, "infraComponents": {}},
    }))
    .unwrap();
    let infra = cluster.api::<Infra>().create(&PostParams::default(), &infra).await.unwrap();
    let owner = Owner::of(&infra).unwrap();
    let map = |text: &str| {
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"text": text}})).unwrap();
        map
    };
    let wanted = |text: &str| [Wanted::new(CONFIG_MAP, &map(text))];
    let report = applier.converge(&owner, &wanted("first"), &[], &Children::fixed(&[])).await;
    let Some(Ok(Action::Applied(made))) = report.of(CONFIG_MAP, "m") else { panic!("{report:?}") };
    let stale = Children::fixed(&[(CONFIG_MAP, vec![(**made).clone()])]);
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("of a person")).await.unwrap();

    for wanted in [&wanted("second")[..], &[]] {
        let report = applier.converge(&owner, wanted, &[], &stale).await;
        let error = report.failures().next().expect("it is refused");
        assert_eq!(error.category(), Category::Conflict, "{error:?}");
        let kept = maps.get("m").await.unwrap();
        assert_eq!(kept.data.unwrap()["text"], "of a person");
    }
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let report = applier.converge(&owner, &wanted("third"), &[], &stale).await;
    assert_eq!(report.failures().count(), 1, "what is gone is made once the cache knows");
    let report = applier.converge(&owner, &wanted("third"), &[], &Children::fixed(&[])).await;
    assert_eq!(report.failures().count(), 0, "{report:?}");
}
