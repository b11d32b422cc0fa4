//! Logs of tunnel proxies (`containernetworktunnelproxies/log`), from the journals that their controller writes. A journal
//! is cut when it grows too long; a reader that follows it goes on after the last line that it has seen.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use causeway_apiserver::{ApiError, LogOptions, ObjectLogs};
use causeway_controllers::containers::tunnel::journal;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often a followed journal is read.
const POLL: Duration = Duration::from_millis(100);

/// The journals below a directory.
pub(in crate::commands::up) struct TunnelJournals {
    directory: PathBuf,
}

impl TunnelJournals {
    pub(in crate::commands::up) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }
}

impl ObjectLogs for TunnelJournals {
    fn open(
        &self,
        namespace: String,
        name: String,
        options: LogOptions,
    ) -> BoxFuture<'static, Result<BoxStream<'static, io::Result<Bytes>>, ApiError>> {
        let path = journal::path(&self.directory, &namespace, &name);
        Box::pin(async move {
            let shown = path.display().to_string();
            let lines = Lines::open(path, options)
                .map_err(|error| ApiError::internal(format!("can't read {shown}: {error}")))?;
            Ok(stream::unfold(lines, |mut lines| async move { Some((lines.next().await?, lines)) }).boxed())
        })
    }

    fn is_left(&self, namespace: &str, name: &str) -> bool {
        journal::path(&self.directory, namespace, name).exists()
    }
}

/// What one request gets, piece by piece.
struct Lines {
    journal: Journal,
    timestamps: bool,
    follow: Option<Follow>,
    /// What was there when it was opened.
    first: Option<String>,
}

struct Follow {
    until: BoxFuture<'static, ()>,
    poll: Interval,
}

impl Lines {
    fn open(path: PathBuf, options: LogOptions) -> io::Result<Self> {
        let mut journal = Journal::new(path);
        let first = journal.read()?;
        let first = match options.tail_lines {
            Some(count) => tail(&first, count).to_owned(),
            None => first,
        };
        let follow = options.follow_until.map(|until| {
            let mut poll = interval(POLL);
            poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Follow { until, poll }
        });
        Ok(Self { journal, timestamps: options.timestamps, follow, first: Some(first) })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let lines = match (self.first.take(), &mut self.follow) {
                (Some(first), _) => Ok(first),
                (None, None) => return None,
                (None, Some(follow)) => {
                    let over = tokio::select! {
                        () = &mut follow.until => true,
                        _ = follow.poll.tick() => false,
                    };
                    if over {
                        self.follow = None;
                    }
                    self.journal.read()
                }
            };
            match lines {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => return Some(Ok(shown(lines, self.timestamps))),
                Err(error) => {
                    self.follow = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn shown(lines: String, timestamps: bool) -> Bytes {
    if timestamps {
        return Bytes::from(lines);
    }
    let text = |line: &str| line.split_once(' ').map_or(line, |(_, text)| text).to_owned();
    Bytes::from(lines.lines().map(|line| text(line) + "\n").collect::<String>())
}

/// The last lines of a text of whole lines.
fn tail(text: &str, count: u64) -> &str {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count == 0 {
        return "";
    }
    let mut ends = text.trim_end_matches('\n').rmatch_indices('\n');
    ends.nth(count - 1).map_or(text, |(before, _)| &text[before + 1..])
}

/// A file that grows, and that is replaced or cut now and then by its newer part.
struct Journal {
    path: PathBuf,
    /// The file that was read last, how far, and the last whole line of it.
    read: Option<(File, u64)>,
    last: String,
}

impl Journal {
    fn new(path: PathBuf) -> Self {
        Self { path, read: None, last: String::new() }
    }

    /// The whole lines that were added since the last time.
    fn read(&mut self) -> io::Result<String> {
        let current = match File::open(&self.path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut added = String::new();
        let mut again = false;
        if let Some((file, position)) = &mut self.read {
            let replaced = match &current {
                Some(current) => current.metadata()?.ino() != file.metadata()?.ino(),
                None => false,
            };
            let cut = file.metadata()?.len() < *position;
            if !cut {
                // What was added before it was replaced or removed is still in the old one.
                added = whole_lines(file, position)?;
            }
            again = replaced || cut;
        }
        if let Some(line) = added.lines().last() {
            line.clone_into(&mut self.last);
        }
        if (self.read.is_none() || again)
            && let Some(mut file) = current
        {
            let mut position = 0;
            let lines = whole_lines(&mut file, &mut position)?;
            let known = if self.last.is_empty() { 0 } else { after(&lines, &self.last) };
            added.push_str(&lines[known..]);
            if let Some(line) = lines.lines().last() {
                line.clone_into(&mut self.last);
            }
            self.read = Some((file, position));
        }
        Ok(added)
    }
}

/// Where the text goes on after this line; its start if the line is not in it.
fn after(text: &str, line: &str) -> usize {
    let mut position = 0;
    let mut found = 0;
    for one in text.split_inclusive('\n') {
        position += one.len();
        if one.trim_end_matches('\n') == line {
            found = position;
        }
    }
    found
}

/// Reads from `position` and moves it behind the last line that is whole.
fn whole_lines(file: &mut File, position: &mut u64) -> io::Result<String> {
    file.seek(SeekFrom::Start(*position))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    bytes.truncate(whole);
    *position += whole as u64;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
