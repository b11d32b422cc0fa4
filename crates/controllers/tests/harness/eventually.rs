//! Waits for conditions, with a deadline.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

/// Longer than anything here takes, so that only a real failure runs into it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Tries until there is something.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut attempt: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(Instant::now() < deadline, "still waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Tries until it is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut attempt: impl FnMut() -> F) {
    eventually(what, || {
        let attempt = attempt();
        async move { attempt.await.then_some(()) }
    })
    .await;
}
