//! What all routes of a listener, or of TLS that ends here, have in common.

use std::sync::Arc;

use causeway_ir::http::{ErrorPage, Http};

use super::pages::{PageSet, Pages};
use super::persistence::Key;

pub(crate) struct Common<'a> {
    pub(crate) pages: Option<Arc<Pages>>,
    /// All pages of the plan.
    known: &'a PageSet,
    pub(crate) sessions: &'a Arc<Key>,
}

impl<'a> Common<'a> {
    pub(crate) fn of(http: &Http, sessions: &'a Arc<Key>, known: &'a PageSet) -> Self {
        Self { pages: known.compiled(&http.error_pages), known, sessions }
    }

    /// The pages of a route; nothing if it has none of its own.
    pub(crate) fn compiled(&self, planned: &[ErrorPage]) -> Option<Arc<Pages>> {
        self.known.compiled(planned)
    }
}
