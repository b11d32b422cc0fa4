//! `--otlp`: where the engine sends spans of requests, for all commands that run one with routes of requests.

use causeway_engine::spans::Spans;
use causeway_engine::spans::otlp::{self, Collector};
use tokio::task::JoinHandle;

/// The flags; flatten them into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TracesArg {
    /// Send spans of requests to the OpenTelemetry collector here, like http://127.0.0.1:4318.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp: Option<String>,
    /// Of the requests that belong to no trace, how many begin one: from 0 for none to 1 for all [env:
    /// OTEL_TRACES_SAMPLER_ARG] [default: 0].
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "otlp")]
    otlp_share: Option<f64>,
    /// The service that spans are of [env: OTEL_SERVICE_NAME] [default: causeway].
    #[arg(long, value_name = "NAME", requires = "otlp")]
    otlp_service: Option<String>,
}

/// What environments say to every program in them, also to those that send no spans: nothing is refused for it.
const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";
const SERVICE: &str = "OTEL_SERVICE_NAME";

impl TracesArg {
    /// Begins to send, if that was asked for. The task ends when all of an engine's spans are sent, or lost.
    ///
    /// # Errors
    /// If there can be no collector.
    pub(crate) fn start(&self) -> Result<Option<(Spans, JoinHandle<()>)>, otlp::Error> {
        let Some(collector) = self.otlp.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
        let service = self.otlp_service.clone().or_else(|| said(SERVICE));
        let service = service.unwrap_or_else(|| "causeway".to_owned());
        let collector = Collector::parse(collector)?;
        // Of another sampler it is no share.
        let share = self.otlp_share.or_else(|| share(&said(SHARE)?).ok());
        Ok(Some(otlp::start(collector, service, share.unwrap_or_default())))
    }

    /// The same in a pod, which has more important things to do: what is wrong is told, and nothing is sent.
    pub(crate) fn start_if_possible(&self) -> Option<Spans> {
        let started = self.start().inspect_err(|error| tracing::warn!(%error, "no spans are sent"));
        started.ok().flatten().map(|(spans, _)| spans)
    }
}

fn said(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|text| !text.is_empty())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 for none to 1 for all".to_owned())
}
