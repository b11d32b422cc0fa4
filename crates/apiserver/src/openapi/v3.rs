//! The OpenAPI v3 document of one group and version.

use serde_json::{Value, json};

use super::{components, info, paths};
use crate::catalog::Listing;

pub(super) fn document(group: &str, version: &str, listing: &Listing) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths::of(group, version, listing),
        "components": {
            "schemas": components::of(group, version, listing),
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey", "in": "header", "name": "authorization",
                    "description": "Bearer Token authentication",
                },
            },
        },
    })
}
