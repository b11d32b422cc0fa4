//! What a container wrote, line by line, with the time and the stream of each.

use std::collections::VecDeque;

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptions;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _, stream};

use crate::{Error, Result, Runtime};

/// A line longer than this is handed on in parts, as the runtimes themselves do.
const LONGEST: usize = 256 * 1024;

/// Which stream a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    Stdout,
    Stderr,
}

/// A line that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub output: Output,
    /// When it was written, in RFC 3339 with up to nine decimals.
    pub time: Option<String>,
    /// Without the end of line.
    pub text: Bytes,
}

/// Which lines are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// Go on while the container runs.
    pub follow: bool,
    /// Only the last lines.
    pub tail: Option<u64>,
    /// Seconds since 1970; only lines from then on.
    pub since: Option<i64>,
}

impl Runtime {
    /// Reads what the container wrote; ends at the end of the log, or with the container when followed.
    pub fn logs(&self, id: &str, options: LogOptions) -> impl Stream<Item = Result<LogLine>> + Send + use<> {
        let what = format!("read the log of container {id}");
        let query = LogsOptions {
            follow: options.follow,
            stdout: true,
            stderr: true,
            since: options.since.map_or(0, |since| i32::try_from(since).unwrap_or(i32::MAX)),
            until: 0,
            timestamps: true,
            tail: options.tail.map_or_else(|| "all".to_owned(), |tail| tail.to_string()),
        };
        let frames = self.docker.logs(id, Some(query)).boxed();
        let state = (frames, Lines::default(), VecDeque::new(), false);
        stream::unfold(state, move |(mut frames, mut lines, mut ready, mut ended)| {
            let what = what.clone();
            async move {
                loop {
                    if let Some(line) = ready.pop_front() {
                        return Some((line, (frames, lines, ready, ended)));
                    }
                    if ended {
                        return None;
                    }
                    match frames.next().await {
                        Some(Ok(frame)) => ready.extend(lines.take(frame).into_iter().map(Ok)),
                        Some(Err(error)) => {
                            ended = true;
                            ready.push_back(Err(Error::new(what.as_str(), error)));
                        }
                        None => {
                            ended = true;
                            ready.extend(lines.rest().into_iter().map(Ok));
                        }
                    }
                }
            }
        })
    }
}

/// Puts lines together: a long one comes in several frames, each with its own time.
#[derive(Default)]
struct Lines {
    stdout: Partial,
    stderr: Partial,
}

#[derive(Default)]
struct Partial {
    time: Option<String>,
    text: BytesMut,
}

impl Lines {
    fn take(&mut self, frame: LogOutput) -> Vec<LogLine> {
        let (output, partial) = match frame {
            LogOutput::StdErr { .. } => (Output::Stderr, &mut self.stderr),
            _ => (Output::Stdout, &mut self.stdout),
        };
        let mut lines = Vec::new();
        let message = frame.into_bytes();
        for piece in message.split_inclusive(|byte| *byte == b'\n') {
            let (time, text) = split_time(piece);
            if partial.text.is_empty() {
                partial.time = time;
            }
            let complete = text.ends_with(b"\n");
            partial.text.extend_from_slice(text.strip_suffix(b"\n").unwrap_or(text));
            if complete || partial.text.len() > LONGEST {
                lines.push(partial.finish(output));
            }
        }
        lines
    }

    /// What was written last without an end of line.
    fn rest(&mut self) -> Vec<LogLine> {
        let mut lines = Vec::new();
        for (output, partial) in [(Output::Stdout, &mut self.stdout), (Output::Stderr, &mut self.stderr)] {
            if !partial.text.is_empty() {
                lines.push(partial.finish(output));
            }
        }
        lines
    }
}

impl Partial {
    fn finish(&mut self, output: Output) -> LogLine {
        let mut text = self.text.split();
        if text.ends_with(b"\r") {
            text.truncate(text.len() - 1);
        }
        LogLine { output, time: self.time.take(), text: text.freeze() }
    }
}

/// Takes off the time that was asked for: `2026-01-02T03:04:05.678901234Z hello`.
fn split_time(piece: &[u8]) -> (Option<String>, &[u8]) {
    let head = &piece[..piece.len().min(40)];
    let Some(space) = head.iter().position(|byte| *byte == b' ') else { return (None, piece) };
    let looks_right = space >= 20 && head[4] == b'-' && head[10] == b'T';
    match std::str::from_utf8(&head[..space]) {
        Ok(time) if looks_right => (Some(time.to_owned()), &piece[space + 1..]),
        _ => (None, piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdout(text: &'static str) -> LogOutput {
        LogOutput::StdOut { message: Bytes::from_static(text.as_bytes()) }
    }

    fn text(line: &LogLine) -> &str {
        std::str::from_utf8(&line.text).unwrap()
    }

    #[test]
    fn takes_the_time_off_each_line() {
        let mut lines = Lines::default();
        let got = lines.take(stdout("2026-01-02T03:04:05.6Z hello world\n2026-01-02T03:04:06Z again\n"));
        assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["hello world", "again"]);
        assert_eq!(got[1].time.as_deref(), Some("2026-01-02T03:04:06Z"));
    }

    #[test]
    fn joins_a_line_that_came_in_parts() {
        let mut lines = Lines::default();
        assert!(lines.take(stdout("2026-01-02T03:04:05Z half ")).is_empty());
        let other = LogOutput::StdErr { message: Bytes::from_static(b"2026-01-02T03:04:05Z beside\n") };
        assert_eq!(text(&lines.take(other)[0]), "beside");
        let got = lines.take(stdout("2026-01-02T03:04:07Z whole\n"));
        assert_eq!(text(&got[0]), "half whole");
        assert_eq!(got[0].time.as_deref(), Some("2026-01-02T03:04:05Z"));
    }

    #[test]
    fn keeps_a_last_line_without_an_end() {
        let mut lines = Lines::default();
        lines.take(stdout("2026-01-02T03:04:05Z last words"));
        assert_eq!(text(&lines.rest()[0]), "last words");
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn an_empty_line_is_a_line() {
        let got = Lines::default().take(stdout("2026-01-02T03:04:05.6Z \n"));
        assert_eq!(got.iter().map(text).collect::<Vec<_>>(), [""]);
    }
}
