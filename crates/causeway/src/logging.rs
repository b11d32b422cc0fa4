//! Where log lines go: standard error, as text for people, at the level they ask for.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What is shown when nobody says otherwise.
const DEFAULT: &str = "warn,causeway=info";

/// Sets logging up for this process. A filter that can't be read is reported and the default used.
pub fn init(filter: Option<&str>) {
    let filter = match filter.map(EnvFilter::try_new) {
        None => EnvFilter::new(DEFAULT),
        Some(Ok(filter)) => filter,
        Some(Err(error)) => {
            eprintln!("causeway: the log filter can't be read ({error}); write for example --log info");
            EnvFilter::new(DEFAULT)
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
