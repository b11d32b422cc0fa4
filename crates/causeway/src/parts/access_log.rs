//! `--access-log`: where the engine writes a line per connection, for all commands that run one.

use std::path::PathBuf;

use causeway_engine::AccessLog;

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
}
