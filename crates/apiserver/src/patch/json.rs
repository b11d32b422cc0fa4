//! The two patch formats that need no schema: RFC 6902 and RFC 7386.

use json_patch::PatchOperation;
use serde_json::Value;

use crate::error::{ApiError, Details, Reason};
use crate::object;

const MAX_OPERATIONS: usize = 10_000;
/// A few `copy` operations can double a document again and again; together they may not copy more than this.
const MAX_COPIED_BYTES: usize = 3 << 20;
/// Operations that build on each other can nest a document without end; trees are walked recursively.
const MAX_DEPTH: usize = 128;

/// Runs the operations of an RFC 6902 patch on a copy of `target`.
pub(crate) fn json_patch(target: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let patch: json_patch::Patch = serde_json::from_slice(patch)
        .map_err(|e| ApiError::bad_request(format!("error decoding JSON patch: {e}")))?;
    if patch.0.len() > MAX_OPERATIONS {
        let why = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            patch.0.len()
        );
        return Err(ApiError::new(
            413,
            Reason::RequestEntityTooLarge,
            format!("Request entity is too large: {why}"),
        ));
    }
    let mut result = target.clone();
    let mut copied = 0;
    for operation in &patch.0 {
        if nests_too_deep(&result, operation) {
            return Err(unprocessable());
        }
        if let PatchOperation::Copy(copy) = operation {
            copied += result.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len());
            if copied > MAX_COPIED_BYTES {
                return Err(unprocessable());
            }
        }
        // Testing for null is how a patch asks that a field is not there.
        let absent = matches!(operation, PatchOperation::Test(test)
            if test.value.is_null() && is_absent(&result, test.path.as_str()));
        if !absent {
            json_patch::patch(&mut result, std::slice::from_ref(operation)).map_err(|_| unprocessable())?;
        }
    }
    Ok(result)
}

/// Whether an operation would put a value further down than trees may reach.
fn nests_too_deep(document: &Value, operation: &PatchOperation) -> bool {
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, document.pointer(copy.from.as_str())),
        PatchOperation::Move(from) => (&from.path, document.pointer(from.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return false,
    };
    let above = path.as_str().matches('/').count();
    above > MAX_DEPTH || value.is_some_and(|value| object::is_deeper_than(value, MAX_DEPTH - above))
}

/// Whether the path names a field that its object lacks.
fn is_absent(document: &Value, path: &str) -> bool {
    let Some((parent, _)) = path.rsplit_once('/') else {
        return false;
    };
    document.pointer(parent).is_some_and(Value::is_object) && document.pointer(path).is_none()
}

/// Lays an RFC 7386 merge patch over a copy of `target`.
pub(crate) fn merge_patch(target: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("Invalid JSON Patch: a merge patch must be a JSON object"));
    }
    let mut result = target.clone();
    json_patch::merge(&mut result, patch);
    Ok(result)
}

/// A well-formed patch that does not fit the object.
pub(super) fn unprocessable() -> ApiError {
    let mut error =
        ApiError::new(422, Reason::Invalid, "the server rejected our request due to an error in our request");
    error.details = Some(Details::default());
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_json_patch_operations_in_order() {
        let target = json!({"spec": {"ports": [1, 2]}});
        let patch = br#"[{"op":"test","path":"/spec/ports/0","value":1},
            {"op":"add","path":"/spec/ports/-","value":3},{"op":"remove","path":"/spec/ports/0"}]"#;
        assert_eq!(json_patch(&target, patch).unwrap(), json!({"spec": {"ports": [2, 3]}}));
    }

    #[test]
    fn failed_test_and_missing_path_are_unprocessable() {
        for patch in [
            r#"[{"op":"test","path":"/a","value":2}]"#,
            r#"[{"op":"remove","path":"/b"}]"#,
            r#"[{"op":"test","path":"/a","value":null}]"#,
            r#"[{"op":"test","path":"/b/c","value":null}]"#,
            r#"[{"op":"replace","path":"/b/c","value":1}]"#,
        ] {
            let error = json_patch(&json!({"a": 1}), patch.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.reason), (422, Reason::Invalid), "{patch}");
            assert_eq!(error.message, "the server rejected our request due to an error in our request");
        }
    }

    #[test]
    fn a_test_for_null_asks_for_absence() {
        let patch = br#"[{"op":"test","path":"/b","value":null},{"op":"add","path":"/b","value":2}]"#;
        assert_eq!(json_patch(&json!({"a": 1}), patch).unwrap(), json!({"a": 1, "b": 2}));
    }

    #[test]
    fn refuses_to_double_a_document_without_end() {
        let double = r#"{"op":"copy","from":"/a","path":"/a/-"}"#;
        let patch = |times| format!("[{}]", vec![double; times].join(","));
        let target = json!({"a": ["x".repeat(100)]});
        assert!(json_patch(&target, patch(5).as_bytes()).is_ok());
        assert_eq!(json_patch(&target, patch(40).as_bytes()).unwrap_err().code, 422);
    }

    #[test]
    fn refuses_to_nest_a_document_without_end() {
        let wrap = r#"{"op":"move","from":"/a","path":"/b"},{"op":"add","path":"/a","value":{}},{"op":"move","from":"/b","path":"/a/a"}"#;
        let patch = |times| format!("[{}]", vec![wrap; times].join(","));
        assert!(json_patch(&json!({"a": 1}), patch(100).as_bytes()).is_ok());
        assert_eq!(json_patch(&json!({"a": 1}), patch(200).as_bytes()).unwrap_err().code, 422);
    }

    #[test]
    fn malformed_json_patch_is_a_bad_request() {
        for patch in ["{", "{}", r#"[{"op":"jump","path":"/a"}]"#] {
            assert_eq!(json_patch(&json!({}), patch.as_bytes()).unwrap_err().code, 400, "{patch}");
        }
    }

    #[test]
    fn refuses_too_many_operations() {
        let one = r#"{"op":"test","path":"/a","value":1}"#;
        let patch = format!("[{}]", vec![one; MAX_OPERATIONS + 1].join(","));
        let error = json_patch(&json!({"a": 1}), patch.as_bytes()).unwrap_err();
        assert_eq!((error.code, error.reason), (413, Reason::RequestEntityTooLarge));
        let patch = format!("[{}]", vec![one; MAX_OPERATIONS].join(","));
        assert!(json_patch(&json!({"a": 1}), patch.as_bytes()).is_ok());
    }

    #[test]
    fn merge_patch_deletes_with_null_and_replaces_lists() {
        let target = json!({"a": 1, "b": {"c": 1, "d": 2}, "l": [1, 2]});
        let merged = merge_patch(&target, &json!({"a": null, "b": {"c": 5}, "l": [3]})).unwrap();
        assert_eq!(merged, json!({"b": {"c": 5, "d": 2}, "l": [3]}));
        assert_eq!(merge_patch(&target, &json!([1])).unwrap_err().code, 400);
    }
}
