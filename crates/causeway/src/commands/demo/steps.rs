//! The steps of a demo: numbered, each printed with what it showed and how long it took.

use std::time::Instant;

use anyhow::Context;

use crate::parts::output;

/// Counts the steps.
#[derive(Default)]
pub(super) struct Steps {
    count: usize,
}

impl Steps {
    /// Prints a step's title, runs it, and prints the lines that it returns.
    ///
    /// # Errors
    /// Those of the step, with its number and title.
    pub(super) async fn run<T>(
        &mut self,
        title: &str,
        step: impl Future<Output = anyhow::Result<(T, Vec<String>)>>,
    ) -> anyhow::Result<T> {
        self.count += 1;
        output::line(format_args!("{}. {title}", self.count));
        let start = Instant::now();
        let (value, lines) = step.await.with_context(|| format!("step {} failed: {title}", self.count))?;
        for line in lines {
            output::line(format_args!("   ✓ {line}"));
        }
        output::line(format_args!("   {:.1} s\n", start.elapsed().as_secs_f64()));
        Ok(value)
    }
}
