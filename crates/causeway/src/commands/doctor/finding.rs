//! What a check has found, and the report of all of them: causes before what follows from them, and one line at the end
//! that says where to begin.

use serde::Serialize;

use crate::parts::answer::Answer;
use crate::parts::paint::{Paint, Tone};

/// How many names a line has before it only counts them.
const NAMED: usize = 10;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Good,
    Bad,
    /// There is no reason to look at it.
    Skipped,
    /// It should be looked at, and could not be from here.
    Unchecked,
}

impl Finding {
    pub(super) fn good(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, what: what.into(), cure: None }
    }

    pub(super) fn bad(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, what: what.into(), cure: Some(cure.into()) }
    }

    pub(super) fn skipped(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped, what: what.into(), cure: None }
    }

    pub(super) fn unchecked(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unchecked, what: what.into(), cure: None }
    }

    pub(super) fn is_bad(&self) -> bool {
        self.verdict == Verdict::Bad
    }

    fn line(&self, paint: Paint) -> String {
        let (mark, tone) = match self.verdict {
            Verdict::Good => ("✓", Tone::Good),
            Verdict::Bad => ("✗", Tone::Bad),
            Verdict::Skipped => ("-", Tone::Faint),
            Verdict::Unchecked => ("?", Tone::Neutral),
        };
        let line = format!("{} {}", paint.tint(tone, mark), self.what);
        self.cure.iter().fold(line, |line, cure| format!("{line}\n    {cure}"))
    }
}

/// Everything that was found about one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    well: bool,
    /// What to do first; absent if nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// How many things could not be looked at.
    unchecked: usize,
    findings: Vec<Finding>,
}

impl Report {
    /// The findings in the order in which one causes the next.
    pub(super) fn new(kind: &str, namespace: &str, name: &str, findings: Vec<Finding>) -> Self {
        let first = findings.iter().find_map(|finding| finding.cure.clone());
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            well: first.is_none(),
            first,
            unchecked: findings.iter().filter(|finding| finding.verdict == Verdict::Unchecked).count(),
            findings,
        }
    }

    pub(super) fn is_well(&self) -> bool {
        self.well
    }
}

impl Answer for Report {
    fn text(&self, paint: Paint) -> String {
        let mut lines: Vec<String> = self.findings.iter().map(|finding| finding.line(paint)).collect();
        lines.push(String::new());
        lines.push(match &self.first {
            None if self.unchecked > 0 => {
                let things = match self.unchecked {
                    1 => "1 thing".to_owned(),
                    count => format!("{count} things"),
                };
                format!(
                    "{things} could not be checked from here, see the lines with ?; nothing wrong was found with the rest of \
                     {} {}/{}",
                    self.kind, self.namespace, self.name
                )
            }
            None => paint.tint(
                Tone::Good,
                &format!("nothing is wrong with {} {}/{}", self.kind, self.namespace, self.name),
            ),
            Some(first) => {
                let count = self.findings.iter().filter(|finding| finding.is_bad()).count();
                let found = match count {
                    1 => "1 thing is wrong".to_owned(),
                    _ => format!("{count} things are wrong"),
                };
                format!("{}; begin with this: {first}", paint.tint(Tone::Bad, &found))
            }
        });
        lines.join("\n")
    }
}

/// A few names, and how many more there are.
pub(super) fn listed(names: &[String]) -> String {
    match names.split_at_checked(NAMED) {
        Some((named, more @ [_, ..])) => format!("{} and {} more", named.join(", "), more.len()),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_where_to_begin() {
        let findings = vec![
            Finding::good("a"),
            Finding::skipped("b"),
            Finding::bad("c is down", "start c"),
            Finding::bad("d is down", "start d"),
        ];
        let report = Report::new("ProxyServer", "apps", "edge", findings);
        let text = report.text(Paint::Plain);
        assert_eq!(
            text,
            "✓ a\n- b\n✗ c is down\n    start c\n✗ d is down\n    start d\n\n2 things are wrong; begin with this: start c"
        );
        assert!(!report.is_well());
        let well = Report::new("ProxyServer", "apps", "edge", vec![Finding::good("a")]);
        assert!(well.is_well());
        assert!(well.text(Paint::Plain).ends_with("\n\nnothing is wrong with ProxyServer apps/edge"));
        let blind = vec![Finding::good("a"), Finding::unchecked("b was not asked")];
        let blind = Report::new("Infra", "apps", "lab", blind);
        let text = blind.text(Paint::Plain);
        assert!(blind.is_well() && text.contains("? b was not asked"), "{text}");
        assert!(
            text.contains("1 thing could not be checked") && !text.contains("nothing is wrong"),
            "{text}"
        );
    }

    #[test]
    fn long_lists_are_counted() {
        let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(listed(&names), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
        assert_eq!(listed(&names[..10]), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9");
        assert_eq!(listed(&names[..1]), "0");
    }
}
