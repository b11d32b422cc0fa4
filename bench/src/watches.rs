//! Watch latency: one writer creates objects at a steady pace, every watcher notes when each event arrives.
//!
//! The time runs from sending the create to the event's last byte, so it holds the create's own way and its sync
//! too: an upper bound of what the watch adds. The writer sends one create after the other, so the n-th line of a
//! watch is the n-th create.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};

use crate::kubernetes::{self, Endpoint};
use crate::samples::Samples;
use crate::writes::VALUE;

/// client-go multiplexes the watches of one client over one connection; servers allow 250 streams and clients
/// spread over several.
pub(crate) const WATCHES_PER_CONNECTION: usize = 100;
/// After the last create, every event must be there within this time.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(30);

/// What one measurement gave, in milliseconds.
#[derive(Debug)]
pub(crate) struct Latency {
    /// From sending a create to its event, for every watcher and event.
    pub(crate) events: Samples,
    /// From sending a create to the event at the last of all watchers.
    pub(crate) last: Samples,
    /// From sending a create to its answer.
    pub(crate) creates: Samples,
}

pub(crate) async fn measure(
    endpoint: &Endpoint,
    label: &str,
    watchers: usize,
    rate: u32,
    count: usize,
) -> anyhow::Result<Latency> {
    let path = kubernetes::config_maps("default");
    let mut connection = endpoint.connect().await?;
    let list = connection.call(endpoint.get(&path)).await?.expect(200)?;
    let list: serde_json::Value = serde_json::from_slice(&list.body)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list without a revision")?;

    let mut sent = Vec::with_capacity(count);
    let mut tasks = JoinSet::new();
    let mut shared = endpoint.connect().await?;
    for n in 0..watchers {
        if n > 0 && n % WATCHES_PER_CONNECTION == 0 {
            shared = endpoint.connect().await?;
        }
        let request = endpoint.get(&format!("{path}?watch=1&resourceVersion={revision}"));
        let answer = shared.open(request).await?;
        if answer.status() != 200 {
            bail!("a watch was answered with {}", answer.status());
        }
        tasks.spawn(arrivals(answer.into_body(), count));
    }

    let value = "v".repeat(VALUE);
    let mut pace = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut creates = Samples::default();
    for n in 0..count {
        pace.tick().await;
        let body = kubernetes::config_map(&format!("{label}-{n:06}"), &value);
        let start = Instant::now();
        sent.push(start);
        connection.call(endpoint.post(&path, body)).await?.expect(201)?;
        creates.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let mut events = Samples::default();
    let mut last = vec![0.0_f64; count];
    let all = async {
        while let Some(done) = tasks.join_next().await {
            let arrived = done.context("a watcher crashed")??;
            for (n, (at, start)) in arrived.iter().zip(sent.iter()).enumerate() {
                let after = at.checked_duration_since(*start);
                let ms = after.context("somebody else writes to the watched namespace")?.as_secs_f64() * 1e3;
                events.push(ms);
                last[n] = last[n].max(ms);
            }
        }
        anyhow::Ok(())
    };
    timeout(ARRIVAL_LIMIT, all).await.context("events were still missing after the last create")??;
    Ok(Latency { events, last: last.into_iter().collect(), creates })
}

/// When each of the first `count` lines of a watch was complete.
async fn arrivals(mut body: Incoming, count: usize) -> anyhow::Result<Vec<Instant>> {
    let mut arrived = Vec::with_capacity(count);
    while arrived.len() < count {
        let frame = body.frame().await.context("a watch ended early")?.context("a watch broke off")?;
        let now = Instant::now();
        if let Some(data) = frame.data_ref() {
            let lines = data.split(|byte| *byte == b'\n').count() - 1;
            arrived.extend(std::iter::repeat_n(now, lines));
        }
    }
    Ok(arrived)
}
