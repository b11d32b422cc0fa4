//! The steps of a demo: numbered, each printed with what it showed and how long it took.

use std::time::Instant;

use anyhow::Context;
use serde::Serialize;

use crate::parts::answer::Answer;
use crate::parts::output;
use crate::parts::paint::{Paint, Tone};

/// The answer of a demo: every step that was played.
#[derive(Serialize)]
pub(super) struct Steps {
    demo: &'static str,
    /// Whether every step did what it says.
    pub(super) passed: bool,
    /// What did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(rename = "steps")]
    played: Vec<Step>,
    /// Whether each is told while it is played.
    #[serde(skip)]
    told: bool,
}

#[derive(Serialize)]
struct Step {
    title: String,
    /// What was seen, each checked.
    seen: Vec<String>,
    seconds: f64,
}

impl Steps {
    /// None yet; those to come are told as they are played, or only at the end.
    pub(super) fn new(demo: &'static str, told: bool) -> Self {
        Self { demo, passed: false, error: None, played: Vec::new(), told }
    }

    /// Says something to people.
    pub(super) fn tell(&self, line: impl std::fmt::Display) {
        if self.told {
            output::line(line);
        }
    }

    /// Prints a step's title, runs it, and prints the lines that it returns.
    ///
    /// # Errors
    /// Those of the step, with its number and title.
    pub(super) async fn run<T>(
        &mut self,
        title: &str,
        step: impl Future<Output = anyhow::Result<(T, Vec<String>)>>,
    ) -> anyhow::Result<T> {
        let number = self.played.len() + 1;
        self.tell(format_args!("{number}. {title}"));
        let start = Instant::now();
        let (value, seen) = step.await.with_context(|| format!("step {number} failed: {title}"))?;
        let seconds = start.elapsed().as_secs_f64();
        let mark = Paint::of_stdout().tint(Tone::Good, "✓");
        for line in &seen {
            self.tell(format_args!("   {mark} {line}"));
        }
        self.tell(format_args!("   {seconds:.1} s\n"));
        self.played.push(Step { title: title.to_owned(), seen, seconds });
        Ok(value)
    }
}

impl Answer for Steps {
    /// The steps were told already.
    fn text(&self, _: Paint) -> String {
        "all gone; everything above was checked".to_owned()
    }
}
