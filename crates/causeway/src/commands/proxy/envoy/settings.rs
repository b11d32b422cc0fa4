//! What of a proxy's settings discovery has no word for, set through Envoy's admin interface as it runs: the level of its
//! log and the limit of connections. An Envoy that starts again gets them again.

use std::time::Duration;

use causeway_api::LogLevel;
use causeway_ir::Limit;
use causeway_translate::proxy::bootstrap::Address;
use causeway_xds::Status;
use http::Method;
use tokio::sync::watch;

use super::admin;

const RETRY: Duration = Duration::from_secs(1);
/// Connections at a time over all listeners; an empty value takes the limit away.
const CONNECTION_LIMIT: &str = "overload.global_downstream_max_connections";

#[derive(Debug, Clone, PartialEq)]
struct Settings {
    level: LogLevel,
    connections: Option<u32>,
}

/// Keeps an Envoy's settings those of the newest object and plan, until dropped.
pub(super) async fn keep(
    at: Address,
    mut status: watch::Receiver<Status>,
    mut level: watch::Receiver<Option<LogLevel>>,
) {
    let mut set = None;
    loop {
        let wanted = {
            let status = status.borrow_and_update();
            let level = *level.borrow_and_update();
            // Without an Envoy, whatever one had is forgotten.
            level.filter(|_| !status.clients.is_empty()).map(|level| Settings {
                level,
                connections: status.plan.as_ref().and_then(|plan| plan.limits.connections.map(Limit::get)),
            })
        };
        let failed = match &wanted {
            Some(settings) if set != wanted => match send(&at, settings).await {
                Ok(()) => {
                    set = wanted;
                    false
                }
                Err(error) => {
                    tracing::debug!("Envoy's settings can't be set yet: {error:#}");
                    true
                }
            },
            Some(_) => false,
            None => {
                set = None;
                false
            }
        };
        let changed = tokio::select! {
            changed = status.changed() => changed,
            changed = level.changed() => changed,
            () = tokio::time::sleep(RETRY), if failed => Ok(()),
        };
        if changed.is_err() {
            return;
        }
    }
}

async fn send(at: &Address, settings: &Settings) -> anyhow::Result<()> {
    let limit = settings.connections.map(|limit| limit.to_string()).unwrap_or_default();
    admin::ask(at, Method::POST, &format!("/runtime_modify?{CONNECTION_LIMIT}={limit}")).await?;
    admin::ask(at, Method::POST, &format!("/logging?level={}", settings.level.as_str())).await?;
    Ok(())
}
