//! What a controller says in one condition.

use causeway_api::conditions::{self, ConditionType, Reason, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::framework::report;

/// What is to be said of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether it holds.
    pub(crate) status: Status,
    /// Why, for programs.
    pub(crate) reason: Reason,
    /// Why, for people.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(status: Status, reason: Reason, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into() }
    }

    pub(crate) fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Status::True, reason, message)
    }

    pub(crate) fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Status::False, reason, message)
    }

    /// Not known yet: things are under way.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(Status::Unknown, Reason::Progressing, message)
    }

    /// Writes it into `conditions`, cut to what the API takes.
    pub(crate) fn set(
        self,
        conditions: &mut Vec<Condition>,
        kind: ConditionType,
        generation: i64,
        now: &Time,
    ) {
        let message = report::cut(&self.message, report::NOTE_LIMIT);
        conditions::set(conditions, kind, self.status, self.reason, message, generation, now);
    }
}
