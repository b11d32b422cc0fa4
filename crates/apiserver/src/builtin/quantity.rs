//! Amounts of resources within objects.

use causeway_base::Quantity;
use serde_json::Value;

pub(crate) const COMPLAINT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Reads an amount, which may be written as text or as a number.
pub(crate) fn of(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

/// Rewrites every amount of a resource list in its canonical form; what is no amount stays for validation.
pub(crate) fn canonicalize(list: &mut Value) {
    for value in list.as_object_mut().into_iter().flat_map(|m| m.values_mut()) {
        if let Some(quantity) = of(value) {
            *value = quantity.to_string().into();
        }
    }
}
