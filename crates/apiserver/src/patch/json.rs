//! The two patch formats that need no schema: RFC 6902 and RFC 7386.

use serde_json::Value;

use crate::error::{ApiError, Details, Reason};

const MAX_OPERATIONS: usize = 10_000;

/// Runs the operations of an RFC 6902 patch on a copy of `target`.
pub fn json_patch(target: &Value, patch: &[u8]) -> Result<Value, ApiError> {
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
    json_patch::patch(&mut result, &patch).map_err(|_| unprocessable())?;
    Ok(result)
}

/// Lays an RFC 7386 merge patch over a copy of `target`.
pub fn merge_patch(target: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request(
            "Invalid JSON Patch: a merge patch must be a JSON object",
        ));
    }
    let mut result = target.clone();
    json_patch::merge(&mut result, patch);
    Ok(result)
}

/// A well-formed patch that does not fit the object.
pub(super) fn unprocessable() -> ApiError {
    let mut error = ApiError::new(
        422,
        Reason::Invalid,
        "the server rejected our request due to an error in our request",
    );
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
        assert_eq!(
            json_patch(&target, patch).unwrap(),
            json!({"spec": {"ports": [2, 3]}})
        );
    }

    #[test]
    fn failed_test_and_missing_path_are_unprocessable() {
        for patch in [
            r#"[{"op":"test","path":"/a","value":2}]"#,
            r#"[{"op":"remove","path":"/b"}]"#,
            r#"[{"op":"replace","path":"/b/c","value":1}]"#,
        ] {
            let error = json_patch(&json!({"a": 1}), patch.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.reason), (422, Reason::Invalid), "{patch}");
            assert_eq!(
                error.message,
                "the server rejected our request due to an error in our request"
            );
        }
    }

    #[test]
    fn malformed_json_patch_is_a_bad_request() {
        for patch in ["{", "{}", r#"[{"op":"jump","path":"/a"}]"#] {
            assert_eq!(
                json_patch(&json!({}), patch.as_bytes()).unwrap_err().code,
                400,
                "{patch}"
            );
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
