//! What people are told while they wait: each step with its time, on standard error. On a terminal the step that is waited for
//! is one line that changes; elsewhere every step is a line once it is done. Programs (`-o json`) are told nothing.

use std::fmt::Display;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::output::Output;
use super::paint::{Paint, Tone};

/// How often the line that is waited for changes.
const TICK: Duration = Duration::from_millis(120);
const TURNS: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Clears the line that the cursor is on.
const CLEAR: &str = "\r\x1b[2K";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Lines,
    Terminal,
}

/// Tells of steps as they are done.
pub(crate) struct Progress {
    shown: Shown,
    paint: Paint,
}

/// Changes what is said of the step that is waited for.
#[derive(Clone)]
pub(crate) struct Detail(watch::Sender<String>);

impl Detail {
    pub(crate) fn say(&self, detail: impl Display) {
        let detail = detail.to_string();
        self.0.send_if_modified(|before| {
            let is_new = *before != detail;
            *before = detail;
            is_new
        });
    }
}

impl Progress {
    /// For people, or for nobody.
    pub(crate) fn new(is_told: bool) -> Self {
        let paint = Paint::of_stderr();
        let shown = match (is_told, std::io::stderr().is_terminal() && paint != Paint::Plain) {
            (false, _) => Shown::Nothing,
            (true, true) => Shown::Terminal,
            (true, false) => Shown::Lines,
        };
        Self { shown, paint }
    }

    /// Waits for something, which may change what is said meanwhile. Once it is there, its own words are said, if it has any.
    pub(crate) async fn wait<T, E>(
        &self,
        what: &str,
        work: impl AsyncFnOnce(Detail) -> Result<(T, String), E>,
    ) -> Result<T, E> {
        let (detail_tx, mut detail_rx) = watch::channel(String::new()); // the work → the line
        let start = Instant::now();
        let done = work(Detail(detail_tx));
        let mut done = std::pin::pin!(done);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turns = TURNS.iter().cycle();
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut done => break ended,
                _ = tick.tick(), if self.shown == Shown::Terminal => {
                    let turn = turns.next().copied().unwrap_or(' ');
                    let detail = detail_rx.borrow_and_update().clone();
                    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
                    let text = fitting(&format!("{turn} {what}{detail} ({} s)", start.elapsed().as_secs()));
                    Output::Stderr.write(format!("{CLEAR}{text}").as_bytes());
                }
            }
        };
        if self.shown == Shown::Terminal {
            Output::Stderr.write(CLEAR.as_bytes());
        }
        let (found, said) = ended?;
        if !said.is_empty() {
            self.done(format_args!("{said} ({:.1} s)", start.elapsed().as_secs_f64()));
        }
        Ok(found)
    }

    /// Says that something is done.
    pub(crate) fn done(&self, what: impl Display) {
        self.mark(Tone::Good, "✓", what);
    }

    /// Says something that is to be known, and is no failure.
    pub(crate) fn mind(&self, what: impl Display) {
        self.mark(Tone::Faint, "·", what);
    }

    /// Says something that is to be thought about.
    pub(crate) fn warn(&self, what: impl Display) {
        self.mark(Tone::Neutral, "!", what);
    }

    fn mark(&self, tone: Tone, mark: &str, what: impl Display) {
        if self.shown != Shown::Nothing {
            Output::Stderr.line(format_args!("{} {what}", self.paint.tint(tone, mark)));
        }
    }
}

/// The line cut to what a terminal shows of it: a longer one could not be cleared.
fn fitting(line: &str) -> String {
    let columns =
        rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col));
    line.replace('\n', " ").chars().take(columns.max(20) - 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_waited_for_is_handed_on() {
        let progress = Progress { shown: Shown::Nothing, paint: Paint::Plain };
        let work = async |detail: Detail| {
            detail.say("half");
            Ok::<_, String>((7, "all of it".to_owned()))
        };
        assert_eq!(progress.wait("the rest", work).await, Ok(7));
        let failed = progress.wait("it", async |_| Err::<((), String), _>("no".to_owned())).await;
        assert_eq!(failed, Err("no".to_owned()));
    }

    #[test]
    fn a_line_fits() {
        assert_eq!(fitting("a\nb"), "a b");
        assert!(fitting(&"x".repeat(5000)).len() < 5000);
    }
}
