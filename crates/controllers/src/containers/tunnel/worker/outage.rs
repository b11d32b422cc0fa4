//! How long a link is down; a link that is up can't run out of patience, however quiet it is.

use std::time::Duration;

use tokio::time::Instant;

/// Nothing while the link is up.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Takes how the link is now.
    pub(super) fn see(&mut self, is_up: bool) {
        self.since = if is_up { None } else { self.since.or_else(|| Some(Instant::now())) };
    }

    /// Begins anew, if there is one.
    pub(super) fn restart(&mut self) {
        self.since = self.since.map(|_| Instant::now());
    }

    /// Ends when the link is down for so long; never while it is up.
    ///
    /// # Cancellation
    /// Loses nothing: the time counts from the beginning of the outage.
    pub(super) async fn lasts(&self, patience: Duration) {
        match self.since {
            Some(since) => tokio::time::sleep_until(since + patience).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    async fn ends_within(outage: &Outage, limit: Duration) -> bool {
        timeout(limit, outage.lasts(PATIENCE)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_link_that_is_up_is_never_given_up() {
        let mut outage = Outage::default();
        outage.see(true);
        assert!(!ends_within(&outage, Duration::from_hours(24)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn counts_from_the_first_look_that_found_it_down() {
        let mut outage = Outage::default();
        outage.see(false);
        assert!(!ends_within(&outage, Duration::from_secs(20)).await);
        outage.see(false);
        assert!(ends_within(&outage, Duration::from_secs(11)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn begins_anew_after_the_link_was_up() {
        let mut outage = Outage::default();
        outage.see(false);
        tokio::time::advance(Duration::from_secs(29)).await;
        outage.see(true);
        outage.see(false);
        assert!(!ends_within(&outage, Duration::from_secs(29)).await);
    }
}
