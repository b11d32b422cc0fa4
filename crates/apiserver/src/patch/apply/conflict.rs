//! Fields that an applier wants to change and others own, in Kubernetes' words.

use crate::error::{ApiError, Cause, Details, Reason};
use crate::patch::fields::Set;
use crate::patch::managed::{ManagedEntry, Operation};

/// The fields of one owner that are in the way.
#[derive(Debug)]
pub(super) struct Conflict {
    /// The owner as messages name it.
    owner: String,
    fields: Set,
}

impl Conflict {
    /// `None` when the owner loses nothing.
    pub(super) fn between(owner: &ManagedEntry, changed: &Set) -> Option<Self> {
        let fields = owner.fields.intersection(changed);
        (!fields.is_empty()).then(|| Self { owner: describe(owner), fields })
    }

    /// What is left when some fields may be taken.
    pub(super) fn without(mut self, allowed: &Set) -> Option<Self> {
        self.fields.subtract(allowed);
        (!self.fields.is_empty()).then_some(self)
    }
}

fn describe(owner: &ManagedEntry) -> String {
    let mut text = format!("{:?}", owner.manager);
    if !owner.subresource.is_empty() {
        text = format!("{text} with subresource {:?}", owner.subresource);
    }
    if owner.operation == Operation::Update {
        text.push_str(" using ");
        text.push_str(&owner.api_version);
    }
    text
}

/// The 409 that lists every conflict.
pub(super) fn error(conflicts: &[Conflict]) -> ApiError {
    let mut conflicts: Vec<_> = conflicts.iter().map(|c| (c.owner.as_str(), c.fields.paths())).collect();
    conflicts.sort();
    let causes: Vec<_> = conflicts
        .iter()
        .flat_map(|(owner, paths)| paths.iter().map(move |path| (owner, path)))
        .map(|(owner, path)| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {owner}"),
            field: path.clone(),
        })
        .collect();
    let message = if let [only] = causes.as_slice() {
        format!("Apply failed with 1 conflict: {}: {}", only.message, only.field)
    } else {
        let lines: Vec<_> = conflicts
            .iter()
            .flat_map(|(owner, paths)| {
                std::iter::once(format!("conflicts with {owner}:"))
                    .chain(paths.iter().map(|path| format!("- {path}")))
            })
            .collect();
        format!("Apply failed with {} conflicts: {}", causes.len(), lines.join("\n"))
    };
    let mut error = ApiError::new(409, Reason::Conflict, message);
    error.details = Some(Details { causes, ..Details::default() });
    error
}
