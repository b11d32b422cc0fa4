use serde_json::{Value, json};

use super::*;
use crate::resource::Columns;

fn widget() -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": {
                        "size": { "type": "integer" }, "color": { "type": "string", "default": "red" } } },
                    "status": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
                }}},
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas" } },
                "additionalPrinterColumns": [
                    { "name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1 }],
                "selectableFields": [{ "jsonPath": ".spec.color" }],
            }],
        },
    });
    default(&mut crd);
    crd
}

fn with(pointer: &str, value: Value) -> Value {
    let mut crd = widget();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    crd.pointer_mut(parent).unwrap()[key] = value;
    crd
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn fills_in_names_and_conversion() {
    let crd = widget();
    assert_eq!(crd["spec"]["names"]["singular"], "widget");
    assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(crd["spec"]["conversion"], json!({ "strategy": "None" }));
    assert_eq!(validate(&crd, None), []);
}

#[test]
fn refuses_a_bad_definition() {
    let first = "/spec/versions/0";
    let at = |tail: &str| format!("{first}{tail}");
    let spec = |tail: &str| format!("{first}/schema/openAPIV3Schema/properties/spec{tail}");
    let schema = "spec.versions[0].schema.openAPIV3Schema";
    let cases: Vec<(String, Value, String)> = vec![
        (
            "/metadata/name".into(),
            json!("x.example.com"),
            r#"metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group"#
                .into(),
        ),
        (
            "/spec/scope".into(),
            json!("Galaxy"),
            r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#.into(),
        ),
        ("/spec/names/kind".into(), json!("Wid get"), "spec.names.kind: Invalid value".into()),
        ("/spec/names/shortNames".into(), json!(["W"]), "spec.names.shortNames[0]: Invalid value".into()),
        (
            "/spec/conversion/strategy".into(),
            json!("Webhook"),
            r#"spec.conversion.strategy: Invalid value: "Webhook": this server calls no webhooks"#.into(),
        ),
        ("/spec/versions".into(), json!([]), "spec.versions: Required value".into()),
        (at("/storage"), json!(false), "must have exactly one version marked as storage version".into()),
        (at("/schema"), json!({}), format!("{schema}: Required value: schemas are required")),
        (
            spec("/type"),
            Value::Null,
            format!(
                "{schema}.properties[spec].type: Required value: must not be empty for specified object fields"
            ),
        ),
        (spec("/properties/size/type"), json!("int"), r#"Unsupported value: "int""#.into()),
        (
            spec("/properties/color/default"),
            json!(5),
            format!("{schema}.properties[spec].properties[color].default: Invalid value: \"integer\""),
        ),
        (
            spec("/properties/list"),
            json!({ "type": "array" }),
            format!("{schema}.properties[spec].properties[list].items: Required value: must be specified"),
        ),
        (
            spec("/properties/list"),
            json!({ "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"], "items": { "type": "object", "properties": {} } }),
            "entries must all be names of item properties".into(),
        ),
        (
            spec("/properties/list"),
            json!({ "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"], "items": { "type": "object", "properties": { "n": { "type": "string" } } } }),
            "so it must have a default or be a required property".into(),
        ),
        (spec("/properties/ref"), json!({ "$ref": "#/x", "type": "object" }), "$ref is not supported".into()),
        (
            spec("/properties/re"),
            json!({ "type": "string", "pattern": "(" }),
            "must be a valid regular expression".into(),
        ),
        (spec("/properties/o"), json!({ "type": "object", "default": { "x": 1 } }), "must be pruned".into()),
        (
            spec("/properties/o"),
            json!({ "type": "object", "properties": {}, "anyOf": [{ "required": ["a"], "type": "object" }] }),
            "must be empty to be structural".into(),
        ),
        (
            spec("/properties/o"),
            json!({ "type": "object", "anyOf": [{ "properties": { "a": { "enum": ["x"] } } }] }),
            "Required value: because it is defined in".into(),
        ),
        (
            spec("/properties/o"),
            json!({ "type": "object", "properties": { "a": { "type": "string" } },
            "additionalProperties": { "type": "string" } }),
            "mutual exclusive".into(),
        ),
        (
            spec("/x-kubernetes-validations"),
            json!([{ "rule": "self.nope == 1" }]),
            "undefined field 'nope'".into(),
        ),
        (at("/additionalPrinterColumns/0/jsonPath"), json!(".spec["), "invalid JSON path".into()),
        (at("/additionalPrinterColumns/0/type"), json!("text"), "must be one of boolean,date,integer".into()),
        (
            at("/subresources/scale/specReplicasPath"),
            json!(".status.x"),
            "should be a json path under .spec".into(),
        ),
        (at("/selectableFields/0/jsonPath"), json!(".spec"), "must point to a field of type string".into()),
    ];
    for (pointer, value, expected) in cases {
        let errors = texts(&validate(&with(&pointer, value.clone()), None));
        assert!(errors.iter().any(|e| e.contains(&expected)), "{pointer} = {value}: {errors:#?}");
    }
}

#[test]
fn refuses_a_bad_pattern_in_a_branch() {
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x";
    let schema = json!({ "type": "string", "anyOf": [{ "pattern": "[" }] });
    let errors = texts(&validate(&with(place, schema), None));
    assert!(errors[0].contains("properties[x].anyOf[0].pattern: Invalid value"), "{errors:?}");
}

#[test]
fn accepts_what_generators_write() {
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x";
    for schema in [
        json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true, "pattern": "^a" }),
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        json!({ "x-kubernetes-preserve-unknown-fields": true }),
        json!({ "type": "object", "additionalProperties": { "type": "string" }, "default": { "a": "b" } }),
        json!({ "type": "object", "default": {}, "required": ["p"], "properties": { "p": { "type": "integer", "default": 1 } } }),
        json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } } }),
        json!({ "type": "string", "enum": ["", "a"], "nullable": true, "description": "d", "title": "t" }),
        json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
    ] {
        assert_eq!(texts(&validate(&with(spec, schema.clone()), None)), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn keeps_what_stored_objects_hang_on() {
    let old = widget();
    let errors = texts(&validate(&with("/spec/scope", json!("Cluster")), Some(&old)));
    assert_eq!(errors, [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]);
    let dropped = with("/status", json!({ "storedVersions": ["v0"] }));
    assert_eq!(
        texts(&validate(&dropped, Some(&old))),
        [r#"status.storedVersions[0]: Invalid value: "v0": must appear in spec.versions"#,]
    );
}

#[test]
fn becomes_a_resource_for_each_served_version() {
    let mut crd = widget();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    second["deprecated"] = json!(true);
    let mut hidden = second.clone();
    hidden["name"] = json!("v3");
    hidden["served"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().extend([second, hidden]);
    let resources = resources(&crd).unwrap();
    assert_eq!(resources.iter().map(|r| r.version.as_str()).collect::<Vec<_>>(), ["v1", "v2"]);
    let first = &resources[0];
    assert_eq!(
        (first.kind.as_str(), first.list_kind.as_str(), first.singular.as_str()),
        ("Widget", "WidgetList", "widget")
    );
    assert_eq!(
        (first.short_names.clone(), first.categories.clone()),
        (vec!["wd".to_owned()], vec!["all".to_owned()])
    );
    assert!(first.namespaced && first.subresources.status);
    assert_eq!(first.subresources.scale.as_ref().unwrap().spec_replicas, "spec.size");
    assert_eq!(first.selectable_fields, ["spec.color"]);
    let Columns::Paths(columns) = &first.columns else { panic!("not paths") };
    assert_eq!((columns[0].name.as_str(), columns[0].priority), ("Size", 1));
    assert_eq!(first.deprecation_warning, None);
    assert_eq!(resources[1].deprecation_warning.as_deref(), Some("example.com/v2 Widget is deprecated"));
    assert_eq!(resources[1].storage_version, "v1");
    let mut object = json!({ "spec": {} });
    first.schema.default(&mut object);
    assert_eq!(object, json!({ "spec": { "color": "red" } }));
}

#[test]
fn is_established_and_keeps_its_times() {
    let mut crd = widget();
    crd["status"] = accepted_status(&crd, None, "2026-01-01T00:00:00Z");
    assert_eq!(
        crd["status"],
        json!({
            "acceptedNames": crd["spec"]["names"], "storedVersions": ["v1"],
            "conditions": [
                { "type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found",
                  "lastTransitionTime": "2026-01-01T00:00:00Z" },
                { "type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                  "message": "the initial names have been accepted", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ],
        })
    );
    assert_eq!(accepted_status(&crd, None, "2027-01-01T00:00:00Z"), crd["status"]);
    crd["spec"]["versions"][0]["name"] = json!("v2");
    assert_eq!(accepted_status(&crd, None, "x")["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn is_not_established_while_another_holds_its_names() {
    let crd = widget();
    for (name, reason) in [
        ("Widget", "KindConflict"),
        ("WidgetList", "ListKindConflict"),
        ("wd", "ShortNamesConflict"),
        ("widget", "SingularConflict"),
        ("widgets", "PluralConflict"),
    ] {
        let status = accepted_status(&crd, Some(format!("{name:?} is already in use")), "t");
        assert_eq!(status["conditions"][0]["reason"], reason);
        assert_eq!(status["conditions"][1]["status"], "False");
        assert_eq!(status["conditions"][1]["reason"], "NotAccepted");
    }
    // What is served stays served.
    let mut served = widget();
    served["status"] = accepted_status(&served, None, "t");
    served["status"] = accepted_status(&served, Some(r#""Widget" is already in use"#.to_owned()), "t");
    assert!(is_accepted(&served));
}

#[test]
fn finds_a_name_that_another_holds() {
    let mut other = widget();
    other["metadata"]["name"] = json!("gadgets.example.com");
    other["status"] = accepted_status(&other, None, "t");
    let crd = widget();
    let conflict = name_conflict(&crd, [&other, &crd]);
    assert_eq!(conflict.as_deref(), Some(r#""WidgetList" is already in use"#));
    let status = accepted_status(&crd, conflict, "t");
    assert_eq!(status["conditions"][0]["reason"], "ListKindConflict");
    assert_eq!(status["conditions"][1]["status"], "False");
    assert_eq!(status["conditions"][1]["reason"], "NotAccepted");
    other["spec"]["group"] = json!("elsewhere.com");
    assert_eq!(name_conflict(&crd, [&other]), None);
}

#[test]
fn versions_with_one_schema_share_it() {
    let mut crd = widget();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    let resources = resources(&crd).unwrap();
    assert!(Arc::ptr_eq(&resources[0].schema, &resources[1].schema));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["pattern"] = json!("(");
    assert_eq!(validate(&crd, None).len(), 1);
}

#[test]
fn is_accepted_once_established() {
    let mut crd = widget();
    assert!(!is_accepted(&crd));
    crd["status"] = accepted_status(&crd, None, "t");
    assert!(is_accepted(&crd));
}

#[test]
fn accepts_every_definition_of_this_project() {
    for definition in causeway_api::crds() {
        let mut crd = serde_json::to_value(definition).unwrap();
        default(&mut crd);
        assert_eq!(texts(&validate(&crd, None)), Vec::<String>::new(), "{}", crd["metadata"]["name"]);
        assert_eq!(resources(&crd).unwrap().len(), 1);
    }
}
