//! The lines of a checklist.

use serde::Serialize;

use crate::parts::answer::Answer;
use crate::parts::paint::{Paint, Tone};

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    section: &'static str,
    pub(crate) level: Level,
    what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

impl Line {
    pub(crate) fn ok(section: &'static str, what: impl Into<String>) -> Self {
        Self { section, level: Level::Ok, what: what.into(), cure: None }
    }

    pub(crate) fn warn(section: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { section, level: Level::Warn, what: what.into(), cure: Some(cure.into()) }
    }

    pub(crate) fn fail(section: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { section, level: Level::Fail, what: what.into(), cure: Some(cure.into()) }
    }

    /// Something that the asker may not see, or that did not answer.
    pub(super) fn unseen(section: &'static str, what: &str, error: &kube::Error) -> Self {
        let cure = "ask somebody who may see it to run this; the rest is checked";
        Self::warn(section, format!("{what}: {}", crate::parts::refusal::words(error)), cure)
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.level == Level::Fail
    }

    pub(crate) fn is_warning(&self) -> bool {
        self.level == Level::Warn
    }

    pub(crate) fn text(&self, paint: Paint) -> String {
        let (mark, tone) = match self.level {
            Level::Ok => ("✓", Tone::Good),
            Level::Warn => ("!", Tone::Neutral),
            Level::Fail => ("✗", Tone::Bad),
        };
        format!("{} {}", paint.tint(tone, mark), self.words())
    }

    /// What it is, and what to do.
    pub(crate) fn words(&self) -> String {
        let cure = self.cure.as_ref().map(|cure| format!("\n    → {cure}")).unwrap_or_default();
        format!("{}{cure}", self.what)
    }
}

/// All of them.
#[derive(Debug, Serialize)]
pub(crate) struct Checklist {
    /// Of the worst line.
    result: Level,
    checks: Vec<Line>,
}

impl Checklist {
    pub(crate) fn new(checks: Vec<Line>) -> Self {
        let result = checks.iter().map(|line| line.level).max().unwrap_or(Level::Ok);
        Self { result, checks }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.result != Level::Fail
    }
}

impl Answer for Checklist {
    fn text(&self, paint: Paint) -> String {
        let (mut rows, mut section) = (Vec::new(), "");
        for line in &self.checks {
            if line.section != section {
                section = line.section;
                rows.push(section.to_owned());
            }
            rows.push(format!("  {}", line.text(paint).replace('\n', "\n  ")));
        }
        let count = |level| self.checks.iter().filter(|line| line.level == level).count();
        let (failed, warned) = (count(Level::Fail), count(Level::Warn));
        rows.push(match (failed, warned) {
            (0, 0) => "all is as it should be".to_owned(),
            (0, warned) => format!("nothing fails; {warned} to think about"),
            (failed, _) => format!("{failed} failed: begin with the first"),
        });
        rows.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_line_is_the_result_and_each_has_its_cure() {
        let lines = vec![Line::ok("a", "fine"), Line::warn("a", "odd", "look"), Line::fail("b", "bad", "do")];
        let list = Checklist::new(lines);
        assert!(!list.is_well());
        let text = list.text(Paint::Plain);
        assert_eq!(
            text,
            "a\n  ✓ fine\n  ! odd\n      → look\nb\n  ✗ bad\n      → do\n1 failed: begin with the first"
        );
        let json = serde_json::to_value(&list).unwrap();
        assert_eq!(json["result"], "fail");
        assert_eq!(json["checks"][2]["cure"], "do");
    }
}
