//! Turns an error and its sources into one line for logs, Events and conditions. Errors in this crate never print
//! their source themselves, so joining the chain repeats nothing.

use std::error::Error;

/// The API refuses Event notes and expects condition messages above this many bytes to be cut by the writer.
pub const NOTE_LIMIT: usize = 1024;

/// The whole chain, outermost first, joined by `: `.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = own_text(error);
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = own_text(cause);
        // Some library errors print their source; saying it twice helps nobody.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        // An answer's source is the answer again.
        source = if is_answer(cause) { None } else { cause.source() };
    }
    text
}

fn is_answer(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(_)))
}

/// What one link of the chain says. An answer of the API server says its message, not the dump of the whole answer.
fn own_text(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => status.message.clone(),
        _ => error.to_string(),
    }
}

/// `text` cut to `limit` bytes on a character boundary, with an ellipsis when something was lost.
pub fn cut(text: &str, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to apply DNSServer lab/a-dns")]
    struct Outer {
        source: std::io::Error,
    }

    #[test]
    fn joins_the_chain_once() {
        let error = Outer { source: std::io::Error::other("connection refused") };
        assert_eq!(chain(&error), "failed to apply DNSServer lab/a-dns: connection refused");
    }

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

    #[test]
    fn cuts_on_a_character_boundary_within_the_limit() {
        let text = "é".repeat(600);
        let short = cut(&text, NOTE_LIMIT);
        assert!(short.len() <= NOTE_LIMIT && short.ends_with('…'));
        assert_eq!(cut("short", NOTE_LIMIT), "short");
    }
}
