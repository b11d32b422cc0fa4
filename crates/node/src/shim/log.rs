//! Writes a container's log in the CRI form, `TIME stdout|stderr F|P LINE`, and rotates it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use jiff::Timestamp;

const MAX_SIZE: u64 = 10 * 1024 * 1024;
const MAX_LINE: usize = 16 * 1024;

/// Which output a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The log of one attempt: the current file and one older one.
pub(super) struct LogFile {
    path: PathBuf,
    rotated: PathBuf,
    file: Option<File>,
    size: u64,
    max_size: u64,
    /// Unfinished lines of stdout and stderr.
    partial: [Vec<u8>; 2],
}

impl LogFile {
    pub(super) fn open(path: PathBuf, rotated: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            path,
            rotated,
            file: Some(file),
            size,
            max_size: MAX_SIZE,
            partial: [Vec::new(), Vec::new()],
        })
    }

    /// Adds output; whole lines are written at once, a rest waits for its end.
    pub(super) fn append(&mut self, stream: Stream, output: &[u8], now: Timestamp) {
        let mut pending = std::mem::take(&mut self.partial[stream as usize]);
        pending.extend_from_slice(output);
        let mut entries = Vec::with_capacity(pending.len() + 64);
        let mut rest = pending.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            write_line(&mut entries, stream, line, now, "F");
            rest = after.get(1..).unwrap_or_default();
        }
        while rest.len() > MAX_LINE {
            let (line, after) = rest.split_at(MAX_LINE);
            write_line(&mut entries, stream, line, now, "P");
            rest = after;
        }
        self.partial[stream as usize] = rest.to_vec();
        self.write(&entries);
    }

    /// Writes what has no line end.
    pub(super) fn finish(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = std::mem::take(&mut self.partial[stream as usize]);
            if !rest.is_empty() {
                let mut entry = Vec::new();
                write_line(&mut entry, stream, &rest, Timestamp::now(), "P");
                self.write(&entry);
            }
        }
    }

    /// A full disk must not stop the process, so a failed write is dropped.
    fn write(&mut self, entries: &[u8]) {
        if self.size > 0 && self.size + entries.len() as u64 > self.max_size {
            self.rotate();
        }
        if let Some(file) = &mut self.file
            && file.write_all(entries).is_ok()
        {
            self.size += entries.len() as u64;
        }
    }

    fn rotate(&mut self) {
        if fs::rename(&self.path, &self.rotated).is_err() {
            return;
        }
        self.file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path).ok();
        self.size = 0;
    }
}

fn write_line(entries: &mut Vec<u8>, stream: Stream, line: &[u8], now: Timestamp, tag: &str) {
    entries.extend_from_slice(format!("{now:.9} {} {tag} ", stream.as_str()).as_bytes());
    entries.extend_from_slice(line);
    entries.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &tempfile::TempDir) -> LogFile {
        LogFile::open(dir.path().join("log"), dir.path().join("log.1")).unwrap()
    }

    #[test]
    fn stamps_each_line_and_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(&dir);
        let now = "2026-01-02T03:04:05.5Z".parse().unwrap();
        log.append(Stream::Stdout, b"one\ntw", now);
        log.append(Stream::Stderr, b"oops\n", now);
        log.append(Stream::Stdout, b"o\n", now);
        let text = fs::read_to_string(dir.path().join("log")).unwrap();
        let stamp = "2026-01-02T03:04:05.500000000Z";
        assert_eq!(text, format!("{stamp} stdout F one\n{stamp} stderr F oops\n{stamp} stdout F two\n"));
    }

    #[test]
    fn splits_lines_without_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(&dir);
        log.append(Stream::Stdout, &vec![b'x'; MAX_LINE + 3], Timestamp::UNIX_EPOCH);
        log.finish();
        let text = fs::read_to_string(dir.path().join("log")).unwrap();
        let tags: Vec<_> = text.lines().map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect();
        assert_eq!(tags, ["P", "P"]);
        assert!(text.ends_with("P xxx\n"));
    }

    #[test]
    fn rotates_into_one_older_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(&dir);
        log.max_size = 100;
        for n in 0..10 {
            log.append(Stream::Stdout, format!("line {n}\n").as_bytes(), Timestamp::UNIX_EPOCH);
        }
        assert!(fs::metadata(dir.path().join("log")).unwrap().len() <= 100);
        assert!(fs::read_to_string(dir.path().join("log")).unwrap().ends_with("line 9\n"));
        assert!(fs::metadata(dir.path().join("log.1")).unwrap().len() <= 100);
    }
}
