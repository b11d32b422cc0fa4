mod rules;
mod writes;

use std::collections::BTreeSet;

use serde_json::json;

use super::{field_value, resources};
use crate::resource::{Columns, Resource};

fn find(group: &str, plural: &str) -> Resource {
    resources().into_iter().find(|r| r.group == group && r.plural == plural).unwrap()
}

#[test]
fn every_version_of_a_kind_is_served_once() {
    let all = resources();
    let kinds: BTreeSet<_> =
        all.iter().map(|r| (r.group.clone(), r.version.clone(), r.plural.clone())).collect();
    assert_eq!(kinds.len(), all.len());
    assert_eq!(all.len(), 28);
}

#[test]
fn every_row_fits_its_columns() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for resource in resources() {
        let Columns::Printer(columns, row) = resource.columns else {
            panic!("{} has no columns", resource.kind)
        };
        for object in [json!({}), json!({"metadata": {"name": "x"}, "spec": 1, "status": []})] {
            assert_eq!(row(&object, now).len(), columns.len(), "{}", resource.kind);
        }
    }
}

#[test]
fn defaults_and_rules_survive_values_of_the_wrong_type() {
    let odd =
        [json!(null), json!(1), json!("x"), json!([1]), json!([[]]), json!([{"name": 1}]), json!({"a": 1})];
    let fields = ["spec", "status", "metadata", "data", "subsets", "ports", "rules", "roleRef", "stringData"];
    let inner =
        ["template", "containers", "volumes", "ports", "selector", "strategy", "resources", "metrics"];
    for resource in resources() {
        for value in &odd {
            let mut object = json!({});
            for field in fields {
                object[field] = value.clone();
            }
            check(&resource, object);
            let mut object = json!({"spec": {"template": {"spec": {}}}});
            for field in inner {
                object["spec"][field] = value.clone();
                if field != "template" && object["spec"]["template"].is_object() {
                    object["spec"]["template"]["spec"] = json!({ field: value });
                }
            }
            check(&resource, object);
        }
    }
}

fn check(resource: &Resource, mut object: serde_json::Value) {
    resource.strategy.default(&mut object);
    let old = object.clone();
    resource.strategy.prepare(&mut object, Some(&old));
    resource.strategy.prepare(&mut object, None);
    resource.strategy.convert_to_storage(&mut object);
    resource.strategy.convert_from_storage(&mut object);
    resource.strategy.validate(&object, Some(&old));
}

#[test]
fn defaulting_twice_changes_nothing() {
    let samples = [
        (
            "",
            "pods",
            json!({"spec": {"containers": [{"name": "a", "image": "b",
            "resources": {"limits": {"cpu": "1000m"}}, "ports": [{"containerPort": 1}]}], "volumes": [{"name": "v"}]}}),
        ),
        ("apps", "deployments", json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}})),
        (
            "apps",
            "statefulsets",
            json!({"spec": {"volumeClaimTemplates": [{"spec": {}}], "template": {"spec": {}}}}),
        ),
        ("", "services", json!({"spec": {"ports": [{"port": 80}]}})),
        ("", "secrets", json!({"stringData": {"a": "b"}})),
        ("autoscaling", "horizontalpodautoscalers", json!({"spec": {"behavior": {"scaleUp": {}}}})),
    ];
    for (group, plural, mut object) in samples {
        let strategy = find(group, plural).strategy;
        strategy.default(&mut object);
        let once = object.clone();
        strategy.default(&mut object);
        assert_eq!(object, once, "{plural}");
    }
}

#[test]
fn absent_fields_are_selectable_by_what_they_mean() {
    let cases = [
        ("", "pods", "spec.hostNetwork", json!({}), "false"),
        ("", "pods", "spec.nodeName", json!({}), ""),
        ("", "nodes", "spec.unschedulable", json!({"spec": {"unschedulable": true}}), "true"),
        ("apps", "replicasets", "status.replicas", json!({}), "0"),
        ("", "events", "source", json!({"source": {"component": "kubelet"}}), "kubelet"),
        ("", "events", "source", json!({"reportingComponent": "node"}), "node"),
        ("events.k8s.io", "events", "regarding.kind", json!({"regarding": {"kind": "Pod"}}), "Pod"),
    ];
    for (group, plural, path, object, want) in cases {
        assert_eq!(field_value(&find(group, plural), &object, path), want, "{plural} {path}");
    }
}

#[test]
fn only_kinds_with_a_controller_have_a_generation() {
    for (group, plural, has) in [
        ("apps", "deployments", true),
        ("", "pods", true),
        ("networking.k8s.io", "networkpolicies", true),
        ("", "configmaps", false),
        ("", "services", false),
        ("", "namespaces", false),
        ("coordination.k8s.io", "leases", false),
    ] {
        assert_eq!(find(group, plural).strategy.has_generation(), has, "{plural}");
    }
}
