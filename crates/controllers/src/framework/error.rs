//! What a reconcile can fail with, sorted two ways: the category, a closed set used as metric label and Event reason,
//! and the retry class, which the runner's one error policy obeys. A bad spec is not an error: it is a condition.

use std::sync::Arc;

use kube::core::response::StatusCause;
use prometheus_client::encoding::EncodeLabelValue;

use crate::framework::apply;

/// When a failed reconcile runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// Not by itself: only a new event for the object brings it back.
    Never,
    /// When the object or one of its children changes, or at the next resync.
    OnChange,
    /// After a delay that grows with every failure in a row.
    Backoff,
}

/// The kind of failure, as shown in metrics and Event reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Category {
    /// A watch has not delivered its first list.
    NotSynced,
    /// The API server found an object invalid.
    Refused,
    /// An object of that name belongs to someone else.
    Conflict,
    /// The operator's own rights do not allow it.
    Forbidden,
    /// The namespace is going away.
    Terminating,
    /// The API server or the container runtime could not be reached or failed.
    Unavailable,
}

impl Category {
    /// The category as an Event or condition reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotSynced => "NotSynced",
            Self::Refused => "Refused",
            Self::Conflict => "Conflict",
            Self::Forbidden => "Forbidden",
            Self::Terminating => "NamespaceTerminating",
            Self::Unavailable => "Unavailable",
        }
    }

    /// When trying again can help.
    pub fn retry(self) -> Retry {
        match self {
            Self::Terminating => Retry::Never,
            Self::Refused => Retry::OnChange,
            Self::NotSynced | Self::Conflict | Self::Forbidden | Self::Unavailable => Retry::Backoff,
        }
    }

    /// Sorts an answer of the API server.
    pub fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Unavailable;
        };
        let has_cause = |is_it: fn(&StatusCause) -> bool| {
            status.details.iter().flat_map(|details| &details.causes).any(is_it)
        };
        match (status.code, status.reason.as_str()) {
            _ if has_cause(|cause| cause.reason == "NamespaceTerminating") => Self::Terminating,
            // What was to be changed is gone, and another has its name by now.
            (422, _) if has_cause(|cause| cause.field == "metadata.uid") => Self::Conflict,
            (400 | 422, _) => Self::Refused,
            (401 | 403, _) => Self::Forbidden,
            (409, _) => Self::Conflict,
            _ => Self::Unavailable,
        }
    }
}

/// Why a reconcile did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A watch of a child kind has not been filled in time.
    #[error(
        "the cache of {kind} is not filled after {seconds} s; check that its CRD is installed and that the operator may list it"
    )]
    NotSynced {
        /// The kind whose watch is not ready.
        kind: &'static str,
        /// How long the reconcile waited.
        seconds: u64,
    },
    /// Some objects were not brought to the desired state; the others were.
    #[error("failed to bring {failed} of {total} objects to the desired state")]
    Objects {
        /// How many failed.
        failed: usize,
        /// How many there were.
        total: usize,
        /// The worst one: the one that asks for the most eager retry.
        source: Box<apply::Error>,
    },
    /// It could not be found out what is left in other namespaces.
    #[error("failed to list the objects of kind {kind} that were made in other namespaces")]
    ListRemote {
        /// Their kind.
        kind: &'static str,
        /// What the API server answered.
        source: kube::Error,
    },
    /// What something refers to could not be read.
    #[error("failed to read {kind} {name}")]
    ReadContent {
        /// Its kind.
        kind: &'static str,
        /// Its namespace and name.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// The finalizer could not be added or removed.
    #[error("failed to change the finalizers")]
    Finalizer {
        /// What the API server answered.
        source: kube::Error,
    },
    /// It could not be found out whether a pod that reports still exists.
    #[error("failed to look up the pod {name}")]
    LookUpPod {
        /// Its namespace and name.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// It could not be found out, or said, whose an address is.
    #[error("failed to claim {address}")]
    ClaimAddress {
        /// The address.
        address: std::net::IpAddr,
        /// What the API server answered.
        source: kube::Error,
    },
    /// What an intercept is about could not be changed.
    #[error("failed to change {kind} {name}")]
    ChangeTarget {
        /// Its kind.
        kind: &'static str,
        /// Its namespace and name.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// The container runtime did not do what it was asked for.
    #[error("the container runtime failed")]
    Runtime {
        /// What was asked for, and what it said.
        source: Arc<causeway_containers::Error>,
    },
    /// The status could not be written.
    #[error("failed to write the status")]
    WriteStatus {
        /// What the API server answered.
        source: kube::Error,
    },
}

impl Error {
    /// The category for metrics and Events.
    pub fn category(&self) -> Category {
        match self {
            Self::NotSynced { .. } => Category::NotSynced,
            Self::Objects { source, .. } => source.category(),
            Self::Runtime { .. } => Category::Unavailable,
            Self::ListRemote { source, .. }
            | Self::ReadContent { source, .. }
            | Self::Finalizer { source }
            | Self::LookUpPod { source, .. }
            | Self::ClaimAddress { source, .. }
            | Self::ChangeTarget { source, .. }
            | Self::WriteStatus { source } => Category::of(source),
        }
    }

    /// The retry class for the runner.
    pub fn retry(&self) -> Retry {
        match self {
            // The list of finalizers has changed since it was read: what refuses the change also brings the next try.
            Self::Finalizer { source } if Category::of(source) == Category::Refused => Retry::Backoff,
            // A status that is refused is a fault of the operator or an old CRD, which may be replaced without any
            // event that would wake this object.
            Self::WriteStatus { source } => match Category::of(source) {
                Category::Terminating => Retry::Never,
                _ => Retry::Backoff,
            },
            _ => self.category().retry(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{Status, response::StatusDetails};

    use super::*;

    fn answer(code: u16, cause: &str) -> kube::Error {
        let causes = vec![StatusCause { reason: cause.into(), message: String::new(), field: String::new() }];
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes,
            retry_after_seconds: 0,
        };
        kube::Error::Api(Status::failure("no", "Reason").with_code(code).with_details(details).boxed())
    }

    #[test]
    fn sorts_answers_into_categories_and_retries() {
        for (code, cause, category, retry) in [
            (422, "FieldValueInvalid", Category::Refused, Retry::OnChange),
            (400, "", Category::Refused, Retry::OnChange),
            (403, "", Category::Forbidden, Retry::Backoff),
            (403, "NamespaceTerminating", Category::Terminating, Retry::Never),
            (409, "FieldManagerConflict", Category::Conflict, Retry::Backoff),
            (500, "", Category::Unavailable, Retry::Backoff),
            (429, "", Category::Unavailable, Retry::Backoff),
        ] {
            let found = Category::of(&answer(code, cause));
            assert_eq!((found, found.retry()), (category, retry), "{code} {cause}");
        }
    }
}
