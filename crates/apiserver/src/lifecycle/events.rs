//! Events are kept for an hour, as in Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::server::Server;
use crate::store::{Expect, GroupResource, Mutation};

const KEEP: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
const PERIOD: Duration = Duration::from_mins(5);

pub(super) async fn run(server: Arc<Server>) {
    loop {
        tokio::select! {
            () = server.shutdown.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => expire(&server, jiff::Timestamp::now()).await,
        }
    }
}

async fn expire(server: &Server, now: jiff::Timestamp) {
    for stored in server.store.list(&GroupResource::new("", "events"), None).items {
        let event = stored.value();
        if last_seen(&event).is_some_and(|seen| now.duration_since(seen) > KEEP) {
            let expect = Expect::Revision(stored.revision);
            // A writer that was faster has made the event young again.
            let _ = server.store.write(stored.key.clone(), expect, Mutation::Delete(event)).await;
        }
    }
}

fn last_seen(event: &Value) -> Option<jiff::Timestamp> {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.iter().filter_map(|t| t.as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_time_counts() {
        let event = json!({
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "series": {"lastObservedTime": "2026-01-01T05:00:00.000000Z"},
        });
        assert_eq!(last_seen(&event), "2026-01-01T05:00:00Z".parse().ok());
        assert_eq!(last_seen(&json!({})), None);
    }
}
