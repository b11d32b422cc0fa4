//! `--access-log`: where the engine writes a line per connection, for all commands that run one.

use std::path::PathBuf;

use causeway_engine::AccessLog;

use super::output::Output;

/// The flag; flatten it into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AccessLogArg {
    /// Write a JSON line per connection to this file, `-` for standard output.
    #[arg(id = "access_log", long = "access-log", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl AccessLogArg {
    pub(crate) fn log(&self) -> AccessLog {
        match &self.file {
            None => AccessLog::Off,
            Some(path) if path.as_os_str() == "-" => AccessLog::Stdout,
            Some(path) => AccessLog::File(path.clone()),
        }
    }

    /// Where the command says what it does: not among the lines of the log, which programs read.
    pub(crate) fn output(&self) -> Output {
        match self.log() {
            AccessLog::Stdout => Output::Stderr,
            _ => Output::Stdout,
        }
    }
}
