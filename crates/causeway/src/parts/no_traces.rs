//! The place of `--otlp` in a program without it.

use causeway_engine::spans::Spans;
use tokio::task::JoinHandle;

/// No flags.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TracesArg {}

impl TracesArg {
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn start(&self) -> Result<Option<(Spans, JoinHandle<()>)>, std::convert::Infallible> {
        Ok(None)
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn start_if_possible(&self) -> Option<Spans> {
        None
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        traces: TracesArg,
    }

    #[test]
    fn there_are_no_flags_and_no_spans() -> anyhow::Result<()> {
        assert!(Cli::try_parse_from(["engine", "--otlp", "http://127.0.0.1:4318"]).is_err());
        let cli = Cli::try_parse_from(["engine"])?;
        let (spans, exporter) = cli.traces.clone().start()?.unzip();
        assert!(spans.is_none() && exporter.is_none() && cli.traces.start_if_possible().is_none());
        Ok(())
    }
}
