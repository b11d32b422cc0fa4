//! The log of this process: text on standard error, at a level that can change while it runs, on request of the admin
//! interface or with the `logLevel` of the object that it serves.

use std::io::IsTerminal;
use std::sync::OnceLock;

use causeway_api::LogLevel;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

use super::output;

/// The filter unless one is given. The client library logs every failed attempt to reach an API server as an error; it is
/// off, because the code that needs the server logs the failure once.
const DEFAULT: &str = "warn,causeway=info,kube_client=off,kube_runtime::watcher=off";

static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();
/// Set when a filter was given at the start.
static CHOSEN: OnceLock<()> = OnceLock::new();

/// Sets logging up for this process. A filter that can't be read is reported and the default used.
pub(crate) fn init(filter: Option<&str>) {
    if filter.is_some() {
        CHOSEN.get_or_init(|| ());
    }
    let filter = match filter.map(|filter| EnvFilter::try_new(complete(filter))) {
        None => EnvFilter::new(DEFAULT),
        Some(Ok(filter)) => filter,
        Some(Err(error)) => {
            output::note(format_args!(
                "causeway: the log filter can't be read ({error}); write for example --log info"
            ));
            EnvFilter::new(DEFAULT)
        }
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Said on standard error too, which is what has gone when a line can't be written.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // Logging is set up once in a process.
    let _ = FILTER.set(handle);
}

/// Changes the filter, if there is a new one, and returns the one in use.
///
/// # Errors
/// When the new one can't be read; what to write instead is in the text.
pub(crate) fn change(filter: Option<&str>) -> Result<String, String> {
    let handle = FILTER.get().ok_or("logging is not set up")?;
    if let Some(filter) = filter {
        if !is_level(filter) && !filter.contains('=') {
            return Err(format!("`{filter}` is no level: write a level, like debug, or target=level"));
        }
        let filter = complete(filter);
        let filter = EnvFilter::try_new(&filter)
            .map_err(|error| format!("`{filter}` is no filter ({error}): write a level, like debug"))?;
        handle.reload(filter).map_err(|error| error.to_string())?;
    }
    handle.with_current(ToString::to_string).map_err(|error| error.to_string())
}

/// Takes the level that an object asks for, unless a filter was given at the start.
pub(crate) fn follow(level: LogLevel) {
    let word = match level {
        LogLevel::Trace => "trace",
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warning => "warn",
        LogLevel::Error | LogLevel::Critical => "error",
    };
    if CHOSEN.get().is_none()
        && let Err(error) = change(Some(word))
    {
        tracing::warn!("the log level stays as it is: {error}");
    }
}

/// A bare level changes Causeway's own lines and leaves those of libraries at the default.
fn complete(filter: &str) -> String {
    if is_level(filter) { DEFAULT.replace("info", filter) } else { filter.to_owned() }
}

fn is_level(filter: &str) -> bool {
    filter.parse::<tracing::level_filters::LevelFilter>().is_ok()
}
