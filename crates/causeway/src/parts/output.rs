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
        match self {
            Self::Stdout => write_line(io::stdout().lock(), line),
            Self::Stderr => write_line(io::stderr().lock(), line),
        }
    }
}

/// Prints a line on standard output at once; false when nobody reads any more.
pub(crate) fn line(line: impl Display) -> bool {
    Output::Stdout.line(line)
}

fn write_line(mut to: impl Write, line: impl Display) -> bool {
    match writeln!(to, "{line}").and_then(|()| to.flush()) {
        Err(error) => error.kind() != ErrorKind::BrokenPipe,
        Ok(()) => true,
    }
}

/// How a command prints what it found.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_when_the_reader_has_gone() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(write_line(&writer, "read"));
        drop(reader);
        assert!(!write_line(&writer, "not read"));
    }
}
