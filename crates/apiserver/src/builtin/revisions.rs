//! ControllerRevisions: what controllers remember of the templates that they rolled out.

use serde_json::Value;

use super::check::Errors;
use super::kind::Kind;
use super::print;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("apps", "v1", "ControllerRevision", "controllerrevisions")
            .columns(print::CONTROLLER_REVISION, print::controller_revision)
            .strategy(ControllerRevision)
            .build(),
    ]
}

struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        errors.not_negative(new, "", "revision");
        match old {
            Some(old) => errors.unchanged(new, old, "", "data"),
            None if new["data"].is_null() => errors.required("data", "data is mandatory"),
            None if !new["data"].is_object() => errors.required("data", "data must be a valid JSON object"),
            None => {}
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_rolled_out_is_not_changed_afterwards() {
        let one = json!({"revision": 1, "data": {"spec": {}}});
        assert_eq!(ControllerRevision.validate(&one, None), []);
        let again = json!({"revision": 7, "data": {"spec": {}}});
        assert_eq!(ControllerRevision.validate(&again, Some(&one)), []);
        let other = json!({"revision": 1, "data": {"spec": {"a": 1}}});
        assert!(
            ControllerRevision.validate(&other, Some(&one))[0].to_string().contains("field is immutable")
        );
        assert_eq!(ControllerRevision.validate(&json!({"revision": -1}), None).len(), 2);
    }
}
