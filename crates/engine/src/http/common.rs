//! What all routes of a listener, or of TLS that ends here, have in common.

use std::sync::Arc;

use causeway_ir::http::Http;

use super::pages::Pages;
use super::persistence::Key;

pub(crate) struct Common {
    pub(crate) pages: Option<Arc<Pages>>,
    pub(crate) sessions: Arc<Key>,
}

impl Common {
    pub(crate) fn of(http: &Http, sessions: &Arc<Key>) -> Self {
        Self { pages: Pages::compile(&http.error_pages), sessions: Arc::clone(sessions) }
    }
}
