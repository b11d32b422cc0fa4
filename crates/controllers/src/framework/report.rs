//! Errors in one line for logs, Events and conditions, with the API server's answers in its own words.

use std::error::Error;

pub(crate) use causeway_base::report::cut;

/// The API refuses Event notes and expects condition messages above this many bytes to be cut by the writer.
pub(crate) const NOTE_LIMIT: usize = 1024;

/// The whole chain, outermost first, joined by `: `. An answer of the API server says its message, not the dump of the
/// whole answer.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    causeway_base::report::chain_by(error, |error| match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.message.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_the_api_servers_message_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("failed to write the status")]
        struct Write {
            source: kube::Error,
        }
        let status = kube::core::Status::failure("infras.causeway.dev \"lab\" not found", "NotFound").boxed();
        let text = chain(&Write { source: kube::Error::Api(status) });
        assert_eq!(text, "failed to write the status: infras.causeway.dev \"lab\" not found");
    }
}
