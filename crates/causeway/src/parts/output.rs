//! What a command prints. A reader that has gone (`causeway status | head -1`) is never a reason to crash: a command that
//! prints a list stops printing, a process that serves goes on.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    /// For lines of our own while standard output belongs to another program.
    Stderr,
}

impl Output {
    /// Prints a line at once; false when nobody reads any more.
    pub(crate) fn line(self, line: impl Display) -> bool {
        self.write(format!("{line}\n").as_bytes())
    }

    /// Writes these bytes at once; false when nobody reads any more.
    pub(crate) fn write(self, bytes: &[u8]) -> bool {
        match self {
            Self::Stdout => write(io::stdout().lock(), bytes),
            Self::Stderr => write(io::stderr().lock(), bytes),
        }
    }
}

/// Prints a line on standard output at once; false when nobody reads any more.
pub(crate) fn line(line: impl Display) -> bool {
    Output::Stdout.line(line)
}

/// Prints a line beside the answer, on standard error.
pub(crate) fn note(line: impl Display) {
    Output::Stderr.line(line);
}

fn write(mut to: impl Write, bytes: &[u8]) -> bool {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        Err(error) => error.kind() != ErrorKind::BrokenPipe,
        Ok(()) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_when_the_reader_has_gone() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(write(&writer, b"read"));
        drop(reader);
        assert!(!write(&writer, b"not read"));
    }
}
