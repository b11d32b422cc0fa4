//! How long these tests wait, and how.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Longer than anything here takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until `holds`, and fails the test after [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "after {} s still not true: {what}", PATIENCE.as_secs());
        sleep(Duration::from_millis(10)).await;
    }
}

/// What `work` gives, which must come within [`PATIENCE`].
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("after {} s still waiting: {what}", PATIENCE.as_secs()))
}
