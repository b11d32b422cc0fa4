//! Whether two sets of rules can be told apart: for every request at most one of them fits. What can't be shown to be so counts
//! as an overlap, since nobody could say who gets such a request.

use causeway_api::{HeaderMatch, HttpMatch, MatchType};
use causeway_ir::http::Regex;

use super::rules::Rules;

/// What the two have in common, in words; none if nothing can fit both.
pub(super) fn words(younger: &Rules, older: &Rules) -> Option<String> {
    let advice = "tell them apart by another value of the same header, by paths that don't begin alike, or by the method";
    match (younger.written.as_slice(), older.written.as_slice()) {
        ([], []) => Some(format!("both ask for all traffic: give each a match; {advice}")),
        ([], _) => Some(format!("this one asks for all traffic: give it a match; {advice}")),
        (_, []) => Some("the older one asks for all traffic".to_owned()),
        (younger, older) => {
            let pairs = younger
                .iter()
                .enumerate()
                .flat_map(|(i, one)| older.iter().enumerate().map(move |(j, other)| ((i, one), (j, other))));
            let ((i, _), (j, _)) = pairs.into_iter().find(|((_, one), (_, other))| !are_apart(one, other))?;
            Some(format!(
                "a request may fit both spec.match[{i}] of this one and spec.match[{j}] of the other: {advice}"
            ))
        }
    }
}

/// Whether no request fits both.
fn are_apart(one: &HttpMatch, other: &HttpMatch) -> bool {
    let by_method = one.method.zip(other.method).is_some_and(|(a, b)| a != b);
    let by_path = one
        .path
        .as_ref()
        .zip(other.path.as_ref())
        .is_some_and(|(a, b)| texts_are_apart((a.kind, &a.value), (b.kind, &b.value)));
    let by_header = one.headers.iter().any(|a| other.headers.iter().any(|b| headers_are_apart(a, b)));
    by_method || by_path || by_header
}

fn headers_are_apart(a: &HeaderMatch, b: &HeaderMatch) -> bool {
    a.name.eq_ignore_ascii_case(&b.name) && texts_are_apart((a.kind, &a.value), (b.kind, &b.value))
}

fn texts_are_apart(a: (MatchType, &str), b: (MatchType, &str)) -> bool {
    use MatchType::{Exact, Prefix, Regex as Expression};
    let begin_apart = |a: &str, b: &str| !a.starts_with(b) && !b.starts_with(a);
    match (a, b) {
        ((Exact, a), (Exact, b)) => a != b,
        ((Exact, text), (Prefix, prefix)) | ((Prefix, prefix), (Exact, text)) => !text.starts_with(prefix),
        ((Prefix, a), (Prefix, b)) => begin_apart(a, b),
        ((Exact, text), (Expression, pattern)) | ((Expression, pattern), (Exact, text)) => {
            Regex::within(pattern).is_ok_and(|pattern| !pattern.is_match(text))
        }
        ((Prefix, prefix), (Expression, pattern)) | ((Expression, pattern), (Prefix, prefix)) => {
            begin_apart(prefix, beginning(pattern))
        }
        ((Expression, a), (Expression, b)) => begin_apart(beginning(a), beginning(b)),
    }
}

/// What everything that an expression matches begins with, as far as that can be read off it.
fn beginning(pattern: &str) -> &str {
    let Some(pattern) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return "" };
    let is_plain = |char: char| !r"\.+*?()[]{}^$".contains(char);
    let end = pattern.find(|char| !is_plain(char)).unwrap_or(pattern.len());
    let (plain, rest) = pattern.split_at(end);
    // What may be missing, or be there often, is not counted.
    if rest.starts_with(['*', '?', '{']) {
        let last = plain.char_indices().next_back().map_or(0, |(at, _)| at);
        return &plain[..last];
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(a: (MatchType, &str), b: (MatchType, &str)) -> bool {
        assert_eq!(texts_are_apart(a, b), texts_are_apart(b, a), "{a:?} {b:?}");
        texts_are_apart(a, b)
    }

    #[test]
    fn texts_are_apart_only_if_that_can_be_shown() {
        use MatchType::{Exact, Prefix, Regex};
        for (a, b, expected) in [
            ((Exact, "a"), (Exact, "b"), true),
            ((Exact, "a"), (Exact, "a"), false),
            ((Exact, "/a/b"), (Prefix, "/a"), false),
            ((Exact, "/b"), (Prefix, "/a"), true),
            ((Prefix, "/a"), (Prefix, "/a/b"), false),
            ((Prefix, "/a"), (Prefix, "/b"), true),
            ((Exact, "me"), (Regex, "m."), false),
            ((Exact, "you"), (Regex, "m."), true),
            ((Exact, "home"), (Regex, "^m."), true),
            ((Exact, "home"), (Regex, "m."), false),
            ((Exact, "you"), (Regex, "("), false),
            ((Prefix, "ab"), (Regex, "^b.*"), true),
            ((Prefix, "ab"), (Regex, "b.*"), false),
            ((Prefix, "ab"), (Regex, "^ab?"), false),
            ((Prefix, "ab"), (Regex, "^x*"), false),
            ((Prefix, "ab"), (Regex, "^(?i)b"), false),
            ((Prefix, "ab"), (Regex, "^cd|ab"), false),
            ((Regex, "^a-[0-9]+"), (Regex, "^b-[0-9]+"), true),
            ((Regex, "^a.*"), (Regex, ".*b"), false),
        ] {
            assert_eq!(apart(a, b), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn one_difference_is_enough() {
        let entry = |text: &str| serde_saphyr::from_str::<HttpMatch>(text).unwrap();
        for (a, b, expected) in [
            ("headers: [{name: X-User, value: a}]", "headers: [{name: x-user, value: b}]", true),
            ("headers: [{name: x-user, value: a}]", "headers: [{name: x-team, value: b}]", false),
            ("headers: [{name: x-user, value: a}]", "path: {value: /a}", false),
            ("{headers: [{name: x-user, value: a}], method: GET}", "method: POST", true),
            ("{path: {value: /a}, method: GET}", "{path: {value: /b}, method: GET}", true),
            ("method: GET", "method: GET", false),
        ] {
            assert_eq!(are_apart(&entry(a), &entry(b)), expected, "{a} | {b}");
        }
    }
}
