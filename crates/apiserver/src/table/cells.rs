//! Cells of the columns that a CRD declares by JSONPath.

use jiff::Timestamp;
use serde_json::Value;

use super::{age, definition};
use crate::jsonpath::JsonPath;
use crate::object;
use crate::resource::PathColumn;

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace.";
const AGE_DESCRIPTION: &str =
    "CreationTimestamp is the time at which the server created the object, in RFC3339 form and in UTC.";

/// Parsed columns. A path that does not parse gives empty cells.
pub(super) struct PathCells {
    columns: Vec<(PathColumn, Option<JsonPath>)>,
}

impl PathCells {
    pub(super) fn new(columns: &[PathColumn]) -> Self {
        let age_column;
        let columns = if columns.is_empty() {
            age_column = [PathColumn {
                name: "Age".into(),
                ty: "date".into(),
                format: String::new(),
                description: AGE_DESCRIPTION.into(),
                priority: 0,
                json_path: ".metadata.creationTimestamp".into(),
            }];
            &age_column[..]
        } else {
            columns
        };
        Self { columns: columns.iter().map(|c| (c.clone(), JsonPath::parse(&c.json_path).ok())).collect() }
    }

    pub(super) fn definitions(&self) -> Vec<Value> {
        let name = definition("Name", "string", "name", NAME_DESCRIPTION, 0);
        let others = self.columns.iter().map(|(c, _)| {
            let generated =
                || format!("Custom resource definition column (in JSONPath format): {}", c.json_path);
            let description = if c.description.is_empty() { generated() } else { c.description.clone() };
            definition(&c.name, &c.ty, &c.format, &description, c.priority)
        });
        std::iter::once(name).chain(others).collect()
    }

    pub(super) fn row(&self, item: &Value, now: Timestamp) -> Vec<Value> {
        let others = self.columns.iter().map(|(column, path)| {
            let found = path.as_ref().and_then(|path| path.find(item).into_iter().next());
            found.map_or(Value::Null, |value| cell(&column.ty, value, now))
        });
        std::iter::once(Value::from(object::name(item))).chain(others).collect()
    }
}

/// A value in its column's type; a value of another type is left blank.
fn cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        ("string", Value::String(_)) | ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => {
            value.clone()
        }
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(n)) => n.as_i64().or_else(|| n.as_f64().map(|f| f as i64)).into(),
        ("date", Value::String(text)) => age(text, now).into(),
        _ => Value::Null,
    }
}
