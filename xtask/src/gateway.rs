//! The Gateway API's definitions, from the types of the `gateway-api` crate. Its derive leaves out short names,
//! columns, list types, the defaults that routes rely on and what is not allowed; they are put back here.

use gateway_api::backendtlspolicies::BackendTlsPolicy;
use gateway_api::experimental::gateways::Gateway;
use gateway_api::experimental::grpcroutes::GrpcRoute;
use gateway_api::experimental::httproutes::HttpRoute;
use gateway_api::experimental::listenersets::ListenerSet;
use gateway_api::experimental::tlsroutes::TlsRoute;
use gateway_api::experimental::{tcproutes::TcpRoute, udproutes::UdpRoute};
use gateway_api::gatewayclasses::GatewayClass;
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionVersion, JSON,
    JSONSchemaProps, JSONSchemaPropsOrArray, ValidationRule,
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
        finish(
            ListenerSet::crd(),
            &["lset"],
            &[("Accepted", "string", ".status.conditions[?(@.type==\"Accepted\")].status")],
        ),
        finish(BackendTlsPolicy::crd(), &["btlspolicy"], &[]),
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

/// How many items a list of this name has at most.
fn most(field: &str) -> Option<i64> {
    match field {
        "listeners" | "matches" => Some(64),
        "parentRefs" => Some(32),
        "backendRefs" | "filters" | "headers" | "hostnames" | "queryParams" | "rules" => Some(16),
        _ => None,
    }
}

/// What is not allowed of the listeners of a spec, each with what to do.
const OF_LISTENERS: [(&str, &str); 4] = [
    (
        "self.all(l, !(l.protocol in ['HTTP', 'TCP', 'UDP']) || !has(l.tls))",
        "leave tls out with HTTP, TCP and UDP",
    ),
    (
        "self.all(l, l.protocol != 'HTTPS' || !has(l.tls) || !has(l.tls.mode) || l.tls.mode == 'Terminate')",
        "TLS ends here with HTTPS: write mode Terminate, or use protocol TLS",
    ),
    (
        "self.all(l, !(l.protocol in ['TCP', 'UDP']) || !has(l.hostname) || l.hostname == '')",
        "leave hostname out with TCP and UDP, which have none",
    ),
    (
        "self.all(a, self.exists_one(b, a.port == b.port && a.protocol == b.protocol && (has(a.hostname) && has(b.hostname) \
         ? a.hostname == b.hostname : !has(a.hostname) && !has(b.hostname))))",
        "two listeners have the same port, protocol and hostname: change one of them",
    ),
];

/// What is not allowed of a rule of an HTTPRoute.
const OF_RULES: [(&str, &str); 2] = [
    (
        "!has(self.filters) || !has(self.backendRefs) || self.backendRefs.size() == 0 || \
         !self.filters.exists(f, has(f.requestRedirect))",
        "a rule that redirects leads nowhere else: leave backendRefs out",
    ),
    (
        "!has(self.filters) || !(self.filters.exists(f, has(f.requestRedirect)) && \
         self.filters.exists(f, has(f.urlRewrite)))",
        "a rule redirects or rewrites, not both: leave one filter out",
    ),
];

fn rules(of: &[(&str, &str)]) -> Vec<ValidationRule> {
    let rule = |&(rule, message): &(&str, &str)| ValidationRule {
        rule: rule.to_owned(),
        message: Some(message.to_owned()),
        ..ValidationRule::default()
    };
    of.iter().map(rule).collect()
}

/// Whether a schema has a field of this name.
fn has(schema: &JSONSchemaProps, field: &str) -> bool {
    schema.properties.as_ref().is_some_and(|properties| properties.contains_key(field))
}

/// What is allowed of a field of this name.
fn restrain(schema: &mut JSONSchemaProps, field: &str) {
    match (field, schema.type_.as_deref()) {
        ("port" | "number", Some("integer")) => {
            schema.minimum = Some(1.0);
            schema.maximum = Some(65535.0);
        }
        ("weight", Some("integer")) => {
            schema.minimum = Some(0.0);
            schema.maximum = Some(1_000_000.0);
        }
        ("percent", Some("integer")) => {
            schema.minimum = Some(0.0);
            schema.maximum = Some(100.0);
        }
        ("numerator" | "attempts", Some("integer")) => schema.minimum = Some(0.0),
        ("denominator", Some("integer")) => {
            schema.minimum = Some(1.0);
            schema.default = Some(JSON(json!(100)));
        }
        ("maxAge", Some("integer")) => {
            schema.minimum = Some(1.0);
            schema.default = Some(JSON(json!(5)));
        }
        ("statusCode", Some("integer")) => {
            schema.enum_ = Some([301, 302, 303, 307, 308].map(|code| JSON(json!(code))).to_vec());
            schema.default = Some(JSON(json!(302)));
        }
        ("codes", Some("array")) => {
            if let Some(JSONSchemaPropsOrArray::Schema(code)) = &mut schema.items {
                code.minimum = Some(400.0);
                code.maximum = Some(599.0);
            }
        }
        ("hostname", Some("string")) => {
            schema.max_length = Some(253);
            schema.pattern = Some(
                r"^$|^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$".to_owned(),
            );
        }
        // As upstream has it: rules that compare two of them are bounded by it.
        ("protocol", Some("string")) => schema.max_length = Some(255),
        (_, Some("array")) => schema.max_items = schema.max_items.or(most(field)),
        _ => {}
    }
    let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items else { return };
    if field == "rules" && has(items, "filters") && has(items, "timeouts") {
        items.x_kubernetes_validations = Some(rules(&OF_RULES));
    }
    if field == "listeners" && has(items, "protocol") && has(items, "tls") {
        schema.x_kubernetes_validations = Some(rules(&OF_LISTENERS));
    }
}

fn amend(schema: &mut JSONSchemaProps, field: &str) {
    restrain(schema, field);
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
    // Whose routes may come is another question than whose listeners: nobody's, unless it is written.
    if field == "allowedListeners"
        && let Some(from) = property(level, "namespaces").and_then(|chosen| property(chosen, "from"))
    {
        from.default = Some(JSON(json!("None")));
    }
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
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
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        let from = format!("{spec}/allowedListeners/properties/namespaces/properties/from/default");
        assert_eq!(gateway.pointer(&from), Some(&json!("None")));
    }

    #[test]
    fn numbers_have_their_bounds() {
        let route = serde_json::to_value(finish(HttpRoute::crd(), &[], &[])).unwrap();
        let rule =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/rules/items/properties";
        let filter = format!("{rule}/filters/items/properties");
        for (path, field, value) in [
            (format!("{filter}/requestMirror/properties/percent"), "maximum", json!(100.0)),
            (
                format!("{filter}/requestMirror/properties/fraction/properties/numerator"),
                "minimum",
                json!(0.0),
            ),
            (
                format!("{filter}/requestMirror/properties/fraction/properties/denominator"),
                "default",
                json!(100),
            ),
            (format!("{filter}/cors/properties/maxAge"), "minimum", json!(1.0)),
            (format!("{filter}/requestRedirect/properties/statusCode"), "default", json!(302)),
            (format!("{rule}/retry/properties/attempts"), "minimum", json!(0.0)),
            (format!("{rule}/retry/properties/codes/items"), "minimum", json!(400.0)),
        ] {
            assert_eq!(route.pointer(&path).unwrap()[field], value, "{path}");
        }
    }
}
