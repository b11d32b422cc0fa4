//! One version of the object that is followed: checked once, however often it is planned.

use std::sync::Arc;

use causeway_ir::Problem;
use kube::{Resource, ResourceExt};

use crate::followed::{Followed, Needs};

/// One version of the object.
pub(crate) struct Version<F: Followed> {
    pub(crate) object: Arc<F::Object>,
    /// Its checked form, or what is wrong with it.
    pub(crate) checked: Result<F::Checked, String>,
    pub(crate) needs: Needs,
}

impl<F: Followed> Version<F> {
    pub(crate) fn new(followed: &F, object: Arc<F::Object>) -> Self {
        let checked = followed.check(&object).map_err(|problems| text(&problems));
        let needs = checked.as_ref().map(|checked| followed.needs(checked)).unwrap_or_default();
        Self { object, checked, needs }
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        self.object.meta().generation
    }

    /// Whether the other is this one, with nothing but another status.
    pub(crate) fn is_same(&self, other: &F::Object) -> bool {
        self.generation().is_some()
            && self.generation() == other.meta().generation
            && self.object.uid() == other.uid()
    }

    /// The object without what changes by itself.
    pub(crate) fn bare(&self) -> Result<F::Object, serde_json::Error> {
        let mut value = serde_json::to_value(&*self.object)?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        serde_json::from_value(value)
    }
}

/// Problems in one line.
pub(crate) fn text(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
