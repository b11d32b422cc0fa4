//! The Gateway API's definitions, from the types of the `gateway-api` crate. Its derive leaves out short names,
//! columns, list types and the defaults that routes rely on; they are put back here.

use gateway_api::experimental::{tcproutes::TcpRoute, udproutes::UdpRoute};
use gateway_api::gatewayclasses::GatewayClass;
use gateway_api::gateways::Gateway;
use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use gateway_api::referencegrants::ReferenceGrant;
use gateway_api::tlsroutes::TlsRoute;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionVersion, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

/// What the project puts on its definitions: clients look for the bundle, API servers for the approval that a
/// group below `k8s.io` needs.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("api-approved.kubernetes.io", "https://github.com/kubernetes-sigs/gateway-api/pull/3328"),
    ("gateway.networking.k8s.io/bundle-version", "v1.5.1"),
    ("gateway.networking.k8s.io/channel", "experimental"),
];

/// The definitions that the embedded server has from the start.
pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    let route = [("Hostnames", "string", ".spec.hostnames")];
    vec![
        finish(
            GatewayClass::crd(),
            &["gc"],
            &[
                ("Controller", "string", ".spec.controllerName"),
                ("Accepted", "string", ".status.conditions[?(@.type==\"Accepted\")].status"),
            ],
        ),
        finish(
            Gateway::crd(),
            &["gtw"],
            &[
                ("Class", "string", ".spec.gatewayClassName"),
                ("Address", "string", ".status.addresses[*].value"),
                ("Programmed", "string", ".status.conditions[?(@.type==\"Programmed\")].status"),
            ],
        ),
        finish(HttpRoute::crd(), &[], &route),
        finish(GrpcRoute::crd(), &[], &route),
        finish(TlsRoute::crd(), &[], &route),
        versions(finish(TcpRoute::crd(), &[], &[]), &["v1", "v1alpha2"]),
        versions(finish(UdpRoute::crd(), &[], &[]), &["v1", "v1alpha2"]),
        versions(finish(ReferenceGrant::crd(), &["refgrant"], &[]), &["v1", "v1beta1"]),
    ]
}

/// The same form under each of these versions, as the project serves them; the first is the one that is stored.
fn versions(mut crd: CustomResourceDefinition, names: &[&str]) -> CustomResourceDefinition {
    let Some(form) = crd.spec.versions.first().cloned() else { return crd };
    let version = |(index, name): (usize, &&str)| CustomResourceDefinitionVersion {
        name: (*name).to_owned(),
        served: true,
        storage: index == 0,
        ..form.clone()
    };
    crd.spec.versions = names.iter().enumerate().map(version).collect();
    crd
}

fn finish(
    mut crd: CustomResourceDefinition,
    short_names: &[&str],
    columns: &[(&str, &str, &str)],
) -> CustomResourceDefinition {
    causeway_api::structural(&mut crd);
    crd.metadata.annotations =
        Some(ANNOTATIONS.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect());
    crd.spec.names.categories = Some(vec!["gateway-api".to_owned()]);
    if !short_names.is_empty() {
        crd.spec.names.short_names = Some(short_names.iter().map(|&name| name.to_owned()).collect());
    }
    for version in &mut crd.spec.versions {
        let age = ("Age", "date", ".metadata.creationTimestamp");
        version.additional_printer_columns = Some(columns.iter().chain([&age]).map(column).collect());
        if let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            amend(schema, "");
        }
    }
    crd
}

fn column(&(name, type_, json_path): &(&str, &str, &str)) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: json_path.to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}

/// What the Gateway API fills in below a field of this name.
fn defaults(field: &str) -> Vec<(&'static str, Value)> {
    match field {
        "parentRefs" => vec![("group", json!("gateway.networking.k8s.io")), ("kind", json!("Gateway"))],
        "backendRefs" => vec![("group", json!("")), ("kind", json!("Service")), ("weight", json!(1))],
        "backendRef" => vec![("group", json!("")), ("kind", json!("Service"))],
        "certificateRefs" => vec![("group", json!("")), ("kind", json!("Secret"))],
        "namespaces" => vec![("from", json!("Same"))],
        "path" => vec![("type", json!("PathPrefix")), ("value", json!("/"))],
        "headers" | "queryParams" | "method" => vec![("type", json!("Exact"))],
        _ => Vec::new(),
    }
}

/// The keys by which items of a list of this name are told apart.
fn keys(field: &str) -> Option<&'static [&'static str]> {
    match field {
        "conditions" => Some(&["type"]),
        "listeners" => Some(&["name"]),
        _ => None,
    }
}

fn amend(schema: &mut JSONSchemaProps, field: &str) {
    let item = match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => {
            let known = |key: &&str| items.properties.as_ref().is_some_and(|p| p.contains_key(*key));
            if let Some(keys) = keys(field).filter(|keys| keys.iter().all(known)) {
                schema.x_kubernetes_list_type = Some("map".to_owned());
                schema.x_kubernetes_list_map_keys = Some(keys.iter().map(|&key| key.to_owned()).collect());
            }
            Some(items.as_mut())
        }
        _ => None,
    };
    let level = match item {
        Some(item) => item,
        None => schema,
    };
    for (name, value) in defaults(field) {
        let property = level.properties.as_mut().and_then(|p| p.get_mut(name));
        // A filter's `path` is another type than a match's; what it allows tells them apart.
        if let Some(property) =
            property.filter(|p| p.enum_.iter().all(|allowed| allowed.contains(&JSON(value.clone()))))
        {
            property.default = Some(JSON(value));
        }
    }
    for (name, child) in level.properties.iter_mut().flatten() {
        amend(child, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_structural_and_has_a_status_where_it_should() {
        for crd in crds() {
            let version = &crd.spec.versions[0];
            let kind = &crd.spec.names.kind;
            assert_eq!(version.subresources.is_some(), kind != "ReferenceGrant", "{kind}");
            let text = serde_json::to_string(&version.schema).unwrap();
            assert!(!text.contains("$ref"), "{kind} has a reference");
            assert!(!text.contains("\"uint"), "{kind} has a foreign format");
        }
    }

    #[test]
    fn gateway_listeners_are_merged_by_name() {
        let gateway = serde_json::to_value(finish(Gateway::crd(), &[], &[])).unwrap();
        let listeners = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/listeners";
        assert_eq!(gateway.pointer(listeners).unwrap()["x-kubernetes-list-map-keys"], json!(["name"]));
        let from = format!(
            "{listeners}/items/properties/allowedRoutes/properties/namespaces/properties/from/default"
        );
        assert_eq!(gateway.pointer(&from), Some(&json!("Same")));
    }
}
