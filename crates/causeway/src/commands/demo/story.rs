//! How a demo tells what it does: numbered steps, each with what was seen and how long it took.

use std::time::Instant;

use anyhow::Context;

/// The steps so far.
#[derive(Default)]
pub struct Story {
    steps: usize,
}

impl Story {
    /// Tells a step, does it, and tells what came of it.
    pub async fn step<T>(
        &mut self,
        title: &str,
        work: impl Future<Output = anyhow::Result<(T, Vec<String>)>>,
    ) -> anyhow::Result<T> {
        self.steps += 1;
        println!("{}. {title}", self.steps);
        let start = Instant::now();
        let (value, seen) = work.await.with_context(|| format!("step {} failed: {title}", self.steps))?;
        for line in seen {
            println!("   ✓ {line}");
        }
        println!("   {:.1} s\n", start.elapsed().as_secs_f64());
        Ok(value)
    }
}
