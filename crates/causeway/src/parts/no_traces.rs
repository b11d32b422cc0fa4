//! The place of `--otlp` in a program without it.

use causeway_engine::spans::Spans;
use tokio::task::JoinHandle;

/// No flags.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TracesArg {}

impl TracesArg {
    pub(crate) fn start(&self) -> Result<Option<(Spans, JoinHandle<()>)>, std::convert::Infallible> {
        Ok(None)
    }

    pub(crate) fn start_if_possible(&self) -> Option<Spans> {
        None
    }
}
