use super::*;
use crate::schema::{ListType, MapType, Schema, Type};

fn each_value(value: &Value, see: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            see(map);
            map.values().for_each(|v| each_value(v, see));
        }
        Value::Array(items) => items.iter().for_each(|v| each_value(v, see)),
        _ => {}
    }
}

#[test]
fn every_fact_names_a_field_that_exists() {
    for (ty, field) in list_types::all() {
        let schema = definitions().get(&ty).unwrap_or_else(|| panic!("no type {ty}"));
        if let Some(field) = field {
            assert!(schema["properties"].get(field).is_some(), "no field {field} in {ty}");
        }
    }
}

#[test]
fn facts_are_sorted_so_that_each_is_found() {
    let merge = list_types::merge("io.k8s.api.core.v1.PodSpec", "volumes").unwrap();
    assert_eq!((merge.key, merge.strategy), ("name", "merge,retainKeys"));
    for (ty, field) in list_types::all() {
        let Some(field) = field else { continue };
        let known = list_types::merge(&ty, field).is_some()
            || list_types::is_atomic_field(&ty, field)
            || list_types::default(&ty, field).is_some();
        assert!(known, "{ty}.{field} is not found");
    }
}

#[test]
fn every_reference_resolves() {
    for schema in definitions().values() {
        each_value(schema, &mut |map| {
            if let Some(Value::String(reference)) = map.get("$ref") {
                let name = reference.strip_prefix(REF_PREFIX).unwrap();
                assert!(definitions().contains_key(name), "no {name}");
                assert_eq!(map.len(), 1, "something stands beside {reference}");
            }
        });
    }
}

#[test]
fn documents_are_openapi_3_0() {
    for (name, schema) in definitions() {
        each_value(schema, &mut |map| {
            if let (Some(ty), None) = (map.get("type"), map.get("properties")) {
                assert!(ty.is_string() || ty.is_object(), "{name} has a type {ty}");
            }
        });
    }
}

#[test]
fn top_kinds_carry_their_group_version_and_kind() {
    let name = name_of("apps", "v1", "Deployment").unwrap();
    assert_eq!(name, "io.k8s.api.apps.v1.Deployment");
    let gvk = &definitions()[name]["x-kubernetes-group-version-kind"];
    assert_eq!(gvk, &json!([{ "group": "apps", "version": "v1", "kind": "Deployment" }]));
    assert!(!definitions()[name]["required"].to_string().contains("metadata"));
    assert_eq!(name_of("apps", "v1beta1", "Deployment"), None);
}

#[test]
fn lists_have_the_keys_of_server_side_apply_and_of_strategic_merge() {
    let container = node("io.k8s.api.core.v1.Container");
    let ports = &container.properties["ports"];
    assert_eq!(ports.list_type, ListType::Map(vec!["containerPort".into(), "protocol".into()]));
    assert_eq!(ports.patch_merge_key.as_deref(), Some("containerPort"));
    let port = ports.items.as_ref().unwrap();
    assert_eq!(port.properties["protocol"].default, Some(json!("TCP")));

    let pod = node("io.k8s.api.core.v1.PodSpec");
    assert_eq!(pod.properties["tolerations"].list_type, ListType::Atomic);
    assert_eq!(pod.properties["nodeSelector"].map_type, MapType::Atomic);
    let meta = node(OBJECT_META);
    assert_eq!(meta.properties["finalizers"].list_type, ListType::Set);
    assert_eq!(meta.properties["finalizers"].patch_strategy.as_deref(), Some("merge"));
    let deployment = node("io.k8s.api.apps.v1.DeploymentSpec");
    assert_eq!(deployment.properties["strategy"].patch_strategy.as_deref(), Some("retainKeys"));
    assert_eq!(deployment.properties["selector"].map_type, MapType::Atomic);
}

#[test]
fn parts_are_shared() {
    let template = node("io.k8s.api.core.v1.PodTemplateSpec");
    assert!(Arc::ptr_eq(&template.properties["spec"], &node("io.k8s.api.core.v1.PodSpec")));
}

#[test]
fn scalars_have_the_formats_of_the_wire() {
    let secret = node("io.k8s.api.core.v1.Secret");
    let data = secret.properties["data"].additional.as_ref().unwrap();
    assert_eq!((data.ty, data.format.as_deref()), (Some(Type::String), Some("byte")));
    let time = node(OBJECT_META).properties["creationTimestamp"].clone();
    assert_eq!(time.format.as_deref(), Some("date-time"));
    let port = node("io.k8s.api.core.v1.ServicePort").properties["targetPort"].clone();
    assert!(port.int_or_string);
    assert_eq!((port.ty, port.format.clone()), (None, None));
}

#[test]
fn crd_schemas_keep_whatever_they_hold() {
    let version = node(&format!("{CRD_PACKAGE}.CustomResourceDefinitionVersion"));
    let schema = &version.properties["schema"].properties["openAPIV3Schema"];
    assert!(schema.preserve_unknown_fields);
    assert_eq!(schema.ty, Some(Type::Object));
}

#[test]
fn a_status_may_leave_out_what_its_document_requires() {
    assert!(node("io.k8s.api.core.v1.ContainerStatus").required.is_empty());
    assert_eq!(node("io.k8s.api.core.v1.PodSpec").required, ["containers"]);
}

#[test]
fn a_reference_may_leave_out_its_name() {
    let selector = &definitions()["io.k8s.api.core.v1.SecretKeySelector"];
    assert_eq!(selector["required"], json!(["key"]));
    assert!(node("io.k8s.api.core.v1.LocalObjectReference").required.is_empty());
}

#[test]
fn a_usual_deployment_is_accepted_and_its_mistakes_are_named() {
    let schema = Schema::from_node(node("io.k8s.api.apps.v1.Deployment"));
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "labels": { "app": "web" }, "creationTimestamp": null },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "strategy": { "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "imagePullSecrets": [{}],
                    "containers": [{
                        "name": "web", "image": "web:1",
                        "ports": [{ "containerPort": 80 }],
                        "resources": { "limits": { "cpu": 0.5, "memory": "64Mi" }, "requests": { "cpu": 1 } },
                        "livenessProbe": { "httpGet": { "path": "/", "port": "http" } },
                        "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }],
                    }],
                },
            },
        },
        "status": {},
    });
    assert_eq!(schema.unknown_fields(&deployment), [""; 0]);
    schema.default(&mut deployment);
    assert_eq!(schema.validate(&deployment, None), []);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    assert!(deployment["metadata"].get("creationTimestamp").is_none());

    deployment["spec"]["replicas"] = json!("two");
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!(true);
    deployment["spec"]["template"]["spec"]["container"] = json!([]);
    assert_eq!(schema.unknown_fields(&deployment), ["spec.template.spec.container"]);
    let paths: Vec<_> = schema.validate(&deployment, None).into_iter().map(|e| e.path).collect();
    assert!(paths.iter().any(|p| p == "spec.replicas"), "{paths:?}");
    assert!(paths.iter().any(|p| p.contains("limits")), "{paths:?}");
}

#[test]
fn a_definition_of_a_custom_kind_is_accepted() {
    let schema = Schema::from_node(node(&format!("{CRD_PACKAGE}.CustomResourceDefinition")));
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.a.example" },
        "spec": {
            "group": "a.example", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "default": null, "x-kubernetes-validations": [{ "rule": "true" }],
                    "properties": { "spec": { "type": "object", "additionalProperties": { "type": "string" } } },
                } },
            }],
        },
    });
    let given = crd.clone();
    assert_eq!(schema.unknown_fields(&crd), [""; 0]);
    schema.prune(&mut crd);
    schema.default(&mut crd);
    assert_eq!(schema.validate(&crd, None), []);
    assert_eq!(crd, given);
}
