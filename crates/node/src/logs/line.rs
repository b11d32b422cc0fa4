//! One log line in the CRI form, and what of it a reader gets to see.

use jiff::Timestamp;

/// A parsed line: `TIME STREAM F|P CONTENT`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub time: &'a str,
    pub partial: bool,
    pub content: &'a [u8],
}

/// Reads a line without its line end; `None` for what the shim never writes.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let time = std::str::from_utf8(parts.next()?).ok()?;
    parts.next()?;
    let partial = parts.next()? == b"P";
    Some(Line { time, partial, content: parts.next()? })
}

/// Turns stored lines into output.
#[derive(Debug)]
pub(super) struct Filter {
    since: Option<Timestamp>,
    timestamps: bool,
    bytes_left: Option<u64>,
    /// The line before had no end, so this one continues it.
    continues: bool,
}

impl Filter {
    pub(super) fn new(since: Option<Timestamp>, timestamps: bool, limit_bytes: Option<u64>) -> Self {
        Self { since, timestamps, bytes_left: limit_bytes, continues: false }
    }

    /// True when the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.bytes_left == Some(0)
    }

    /// Appends what the reader sees of `stored` to `output`.
    pub(super) fn push(&mut self, stored: &[u8], output: &mut Vec<u8>) {
        let Some(line) = parse(stored) else { return };
        // Times grow within a log, so the first line in range ends the parsing of times.
        if let Some(since) = self.since {
            match line.time.parse::<Timestamp>() {
                Ok(time) if time < since => return,
                _ => self.since = None,
            }
        }
        if self.timestamps && !self.continues {
            self.write(line.time.as_bytes(), output);
            self.write(b" ", output);
        }
        self.write(line.content, output);
        if !line.partial {
            self.write(b"\n", output);
        }
        self.continues = line.partial;
    }

    fn write(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        let count = self.bytes_left.map_or(bytes.len(), |left| bytes.len().min(left as usize));
        output.extend_from_slice(bytes.get(..count).unwrap_or_default());
        if let Some(left) = &mut self.bytes_left {
            *left -= count as u64;
        }
    }
}
