use std::sync::Arc;

use super::*;
use crate::resource::{ColumnDef, PathColumn, Plain, Subresources};

fn resource(columns: Columns) -> Resource {
    Resource {
        group: "a.example".into(),
        version: "v1".into(),
        kind: "Thing".into(),
        list_kind: "ThingList".into(),
        plural: "things".into(),
        singular: "thing".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        storage_version: "v1".into(),
        storage_group: "a.example".into(),
        schema: Arc::default(),
        subresources: Subresources::default(),
        columns,
        selectable_fields: Vec::new(),
        strategy: Arc::new(Plain),
        deprecation_warning: None,
    }
}

fn column(name: &str, ty: &str, json_path: &str) -> PathColumn {
    PathColumn {
        name: name.into(),
        ty: ty.into(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: json_path.into(),
    }
}

fn thing() -> Value {
    json!({
        "apiVersion": "a.example/v1", "kind": "Thing",
        "metadata": { "name": "one", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "size": 3, "on": true, "share": 0.5, "names": ["a", "b"], "text": "hello" },
        "status": { "conditions": [
            { "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" },
        ] },
    })
}

fn now() -> jiff::Timestamp {
    "2026-01-01T00:05:00Z".parse().unwrap()
}

fn table(columns: Columns, include: IncludeObject, headers: bool) -> Value {
    let meta = json!({ "resourceVersion": "9", "continue": "x", "remainingItemCount": 4, "other": 1 });
    render(TableVersion::V1, &resource(columns), &[thing()], &meta, include, now(), headers)
}

#[test]
fn shows_columns_in_their_types() {
    let columns = vec![
        column("Size", "integer", ".spec.size"),
        column("On", "boolean", ".spec.on"),
        column("Share", "number", ".spec.share"),
        column("Text", "string", ".spec.text"),
        column("Size as text", "string", ".spec.size"),
        column("Names", "string", ".spec.names"),
        column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#),
        column("Missing", "string", ".spec.none"),
        column("Wrong type", "integer", ".spec.text"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ];
    let table = table(Columns::Paths(columns), IncludeObject::None, true);
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["one", 3, true, 0.5, "hello", "3", r#"["a","b"]"#, "True", null, null, "5m"])
    );
    assert_eq!(table["rows"][0]["object"], Value::Null);
    let names: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!((names.len(), names[0], names[10]), (11, &json!("Name"), &json!("Age")));
    assert_eq!(
        table["columnDefinitions"][1]["description"],
        "Custom resource definition column (in JSONPath format): .spec.size"
    );
}

#[test]
fn shows_the_age_when_a_crd_declares_no_column() {
    let table = table(Columns::Paths(Vec::new()), IncludeObject::Metadata, true);
    assert_eq!(table["rows"][0]["cells"], json!(["one", "5m"]));
    assert_eq!(table["columnDefinitions"][1]["type"], "date");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "one");
}

#[test]
fn uses_the_printer_of_a_built_in_kind() {
    static COLUMNS: [ColumnDef; 1] =
        [ColumnDef { name: "Name", ty: "string", format: "name", description: "", priority: 0 }];
    let printer = Columns::Printer(&COLUMNS, |object, _| vec![object["metadata"]["name"].clone()]);
    let table = table(printer, IncludeObject::Object, true);
    assert_eq!(table["rows"][0], json!({ "cells": ["one"], "object": thing() }));
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
}

#[test]
fn carries_the_metadata_of_the_list_and_no_more() {
    let table = table(Columns::Paths(Vec::new()), IncludeObject::None, false);
    assert_eq!(
        table["metadata"],
        json!({ "resourceVersion": "9", "continue": "x", "remainingItemCount": 4 })
    );
    assert_eq!(table["columnDefinitions"], Value::Null);
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
}

#[test]
fn gives_metadata_alone() {
    let list = metadata_list(TableVersion::V1Beta1, &[thing()], &json!({ "resourceVersion": "9" }));
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert!(list["items"][0].get("spec").is_none());
}

#[test]
fn picks_the_form_that_the_client_prefers() {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let cases = [
        ("", Some(Form::Whole)),
        ("application/json", Some(Form::Whole)),
        (table, Some(Form::Table(TableVersion::V1))),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Some(Form::Table(TableVersion::V1)),
        ),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Some(Form::Table(TableVersion::V1Beta1))),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", Some(Form::Whole)),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", None),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Some(Form::MetadataList(TableVersion::V1)),
        ),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Some(Form::Metadata(TableVersion::V1)),
        ),
    ];
    for (accept, expected) in cases {
        assert_eq!(form(accept), expected, "{accept}");
    }
    assert_eq!(form("*/*"), Some(Form::Whole));
}

#[test]
fn reads_include_object() {
    assert_eq!(IncludeObject::parse(""), Some(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("Object"), Some(IncludeObject::Object));
    assert_eq!(IncludeObject::parse("Some"), None);
}
