//! Turns an error and its sources into one line for logs, Events, conditions and the command line. Errors of this
//! workspace never print their source themselves, so joining the chain repeats nothing.

use std::error::Error;

/// The whole chain, outermost first, joined by `: `.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_by(error, |_| None)
}

/// As [`chain`], for callers who know some errors better: where `words` gives a text, that is what the error says, its
/// sources included.
pub fn chain_by(
    error: &(dyn Error + 'static),
    words: impl Fn(&(dyn Error + 'static)) -> Option<String>,
) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let known = words(error);
        next = if known.is_some() { None } else { error.source() };
        let said = known.unwrap_or_else(|| error.to_string());
        // Some libraries print their source too; saying it twice helps nobody.
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
    }
    text
}

/// `text` cut to `limit` bytes on a character boundary, with an ellipsis when something was lost.
pub fn cut(text: &str, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to apply DNSServer lab/a-dns")]
    struct Apply {
        source: io::Error,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("reconcile failed: {source}")]
    struct Repeats {
        source: Apply,
    }

    fn apply() -> Apply {
        Apply { source: io::Error::other("connection refused") }
    }

    #[test]
    fn joins_the_chain_and_says_nothing_twice() {
        assert_eq!(chain(&apply()), "failed to apply DNSServer lab/a-dns: connection refused");
        let text = "reconcile failed: failed to apply DNSServer lab/a-dns: connection refused";
        assert_eq!(chain(&Repeats { source: apply() }), text);
    }

    #[test]
    fn words_of_the_caller_end_the_chain() {
        let words = |error: &(dyn Error + 'static)| error.is::<Apply>().then(|| "no such zone".to_owned());
        assert_eq!(chain_by(&apply(), words), "no such zone");
        #[derive(Debug, thiserror::Error)]
        #[error("reconcile failed")]
        struct Reconcile(#[source] Apply);
        assert_eq!(chain_by(&Reconcile(apply()), words), "reconcile failed: no such zone");
    }

    #[test]
    fn cuts_on_a_character_boundary_within_the_limit() {
        let short = cut(&"é".repeat(600), 1024);
        assert!(short.len() <= 1024 && short.len() > 1020 && short.ends_with("é…"), "{} bytes", short.len());
        assert_eq!(cut("short", 1024), "short");
        assert_eq!(cut("äöü", 6), "äöü");
    }
}
