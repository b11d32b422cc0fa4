//! Ends a container: preStop hook, SIGTERM, the grace period, SIGKILL.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::probe::check::Check;
use crate::process::Instance;

/// A hook that used up the grace period leaves this much for the process itself.
const LAST_GRACE: Duration = Duration::from_secs(2);
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Carries out a stop; the caller drops it when the process ended. A failed hook is returned to `hook_failed`.
pub(super) async fn run(
    instance: Instance,
    hook: Option<Result<Check, String>>,
    deadline: Instant,
    hook_failed: impl AsyncFnOnce(String),
) {
    let mut deadline = deadline;
    if let Some(hook) = hook {
        let result = match hook {
            Ok(check) => timeout_at(deadline, check.run())
                .await
                .unwrap_or_else(|_| Err("preStop hook took longer than the grace period".to_owned())),
            Err(message) => Err(message),
        };
        if let Err(message) = result {
            hook_failed(message).await;
        }
        deadline = deadline.max(Instant::now() + LAST_GRACE);
    }
    instance.terminate();
    sleep_until(deadline).await;
    instance.kill();
    sleep(KILL_LIMIT).await;
    instance.kill_shim();
}
