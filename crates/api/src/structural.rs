//! Finishes a derived definition: what the schema generator writes and Kubernetes does not know, or would read
//! differently than meant, is taken out.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};

/// Rewrites every version's schema in place.
pub fn structural(crd: &mut CustomResourceDefinition) {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            rewrite(schema);
        }
    }
}

fn rewrite(schema: &mut JSONSchemaProps) {
    // A field that is not nullable treats `field: null` as left out, so that its default applies.
    schema.nullable = None;
    // `uint16` and its like are no OpenAPI formats; minimum and maximum already say it.
    schema.format = schema.format.take().filter(|f| !f.starts_with("uint"));
    if let Some(description) = &mut schema.description {
        // Doc comments are wrapped for reading in an editor; a description is one paragraph per blank line.
        *description = unwrap_lines(description);
    }
    for child in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        rewrite(child);
    }
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => rewrite(items),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter_mut().for_each(rewrite),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        rewrite(values);
    }
}

fn unwrap_lines(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}
