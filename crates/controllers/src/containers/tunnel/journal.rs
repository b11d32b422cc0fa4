//! The journal of a tunnel proxy: what happened to it, for people, one line each with its time. Kept on disk so that it
//! can be read after a failure and while the operator is away.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// The journal is cut to its newer half when it has grown to this.
const MOST: u64 = 1 << 20;

/// Where the journal of an object is kept, below the controllers' directory.
pub fn path(directory: &Path, namespace: &str, name: &str) -> PathBuf {
    directory.join(namespace).join(name).join("journal.log")
}

/// Writes the journal of one object.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    last: String,
}

impl Journal {
    /// The journal at `path`; nothing is written yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, last: String::new() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `text`, a line of its own for each of its lines, unless it was the last thing said. A journal that can't
    /// be written is no reason to stop the traffic.
    pub fn say(&mut self, text: &str) {
        if text == self.last {
            return;
        }
        text.clone_into(&mut self.last);
        if let Err(error) = self.append(text) {
            tracing::warn!(path = %self.path.display(), %error, "can't write the journal");
        }
    }

    fn append(&self, text: &str) -> io::Result<()> {
        let now = format!("{:.6}", Timestamp::now());
        let mut lines = String::new();
        for line in text.lines() {
            lines.extend([now.as_str(), " ", line, "\n"]);
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        file.write_all(lines.as_bytes())?;
        if file.metadata()?.len() > MOST { self.cut() } else { Ok(()) }
    }

    /// Keeps the newer half, from the beginning of a line.
    fn cut(&self) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::End(-(MOST as i64) / 2))?;
        let mut rest = Vec::new();
        file.read_to_end(&mut rest)?;
        let begin = rest.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let beside = self.path.with_extension("new");
        OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?
            .write_all(&rest[begin..])?;
        std::fs::rename(beside, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty one, in a directory that is there for as long as the test.
    fn journal() -> (Journal, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path(), "lab", "web");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        (Journal::new(path), directory)
    }

    #[test]
    fn every_line_has_its_time_and_nothing_is_said_twice_in_a_row() {
        let (mut journal, _directory) = journal();
        journal.say("building\nstep 1");
        journal.say("building\nstep 1");
        journal.say("started");
        let text = std::fs::read_to_string(journal.path()).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(
            lines.iter().map(|(_, said)| *said).collect::<Vec<_>>(),
            ["building", "step 1", "started"]
        );
        assert!(lines.iter().all(|(time, _)| time.parse::<Timestamp>().is_ok()), "{text}");
    }

    #[test]
    fn the_older_half_goes_when_it_is_too_long() {
        let (mut journal, _directory) = journal();
        for n in 0..3000 {
            journal.say(&format!("{n} {}", "x".repeat(500)));
        }
        let text = std::fs::read_to_string(journal.path()).unwrap();
        assert!((text.len() as u64) < MOST + 1000, "{}", text.len());
        let said: Vec<_> = text.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(said.last(), Some(&"2999"));
        assert!(
            said.windows(2)
                .all(|pair| pair[0].parse::<u32>().unwrap() + 1 == pair[1].parse::<u32>().unwrap())
        );
    }
}
