//! An Envoy beside this process: what it took and refused, and what its admin interface says of connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use causeway_controllers::vlan::proxy::bootstrap::Address;
use causeway_xds::{ClientStatus, Handle, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{Snapshot, words};

const ADMIN_LIMIT: Duration = Duration::from_secs(2);
/// How often it is asked whether connections are left while it drains.
const DRAIN_LOOK: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub struct Envoy {
    handle: Handle,
    admin: Address,
    /// It took a whole configuration before, and so carries traffic though it may refuse a newer one.
    carried: Arc<AtomicBool>,
}

impl Envoy {
    pub fn new(handle: Handle, admin: Address) -> Self {
        Self { handle, admin, carried: Arc::default() }
    }

    pub fn watch(&self) -> watch::Receiver<Status> {
        self.handle.watch()
    }

    pub fn missing(&self) -> Vec<String> {
        let status = self.handle.status();
        if status.clients.iter().any(|c| c.up_to_date) {
            self.carried.store(true, Ordering::Relaxed);
        }
        let text = if status.plan.is_none() {
            "there is no valid plan yet"
        } else if status.clients.is_empty() {
            "no Envoy is connected"
        } else if !self.carried.load(Ordering::Relaxed) {
            "Envoy has not taken its configuration yet"
        } else {
            return Vec::new();
        };
        vec![text.to_owned()]
    }

    pub async fn snapshot(&self) -> Snapshot {
        let status = self.handle.status();
        let up_to_date = status.clients.iter().any(|c| c.up_to_date);
        let refusal = |c: &ClientStatus| {
            c.nack
                .as_ref()
                .map(|n| format!("Envoy refuses {} {}: {}", n.kind, n.resources.join(", "), n.message))
        };
        let refused = status.refused.as_ref().map(|(_, problems)| words(problems));
        let refused = refused.or_else(|| status.clients.iter().find_map(refusal));
        let trouble = match &refused {
            None if status.clients.is_empty() => {
                Some("no Envoy is connected: see whether its container runs".to_owned())
            }
            None if !up_to_date => Some("Envoy has not taken its newest configuration yet".to_owned()),
            _ => None,
        };
        let plan = status.plan.filter(|_| up_to_date);
        let listeners = plan.iter().flat_map(|plan| &plan.listeners);
        let mut listening: Vec<String> = listeners.map(|l| l.bind.clone()).collect();
        listening.sort();
        Snapshot {
            plan,
            listening,
            refused,
            trouble,
            connections: self.connections().await.unwrap_or_default(),
        }
    }

    /// Has Envoy close its listeners, and waits until its connections have ended or the plan's limit is reached.
    pub async fn drain(&self) {
        let plan = self.handle.status().plan.unwrap_or_default();
        let until = Instant::now() + plan.drain_timeout;
        if let Err(error) = ask(&self.admin, "POST", "/drain_listeners").await {
            // It may have got the same signal and be gone already.
            tracing::debug!("Envoy can't be told to drain: {error:#}");
            return;
        }
        while Instant::now() < until {
            match self.connections().await {
                // Its connection to this process is not counted: it is of no cluster of the plan.
                Ok(counts) if plan.clusters.iter().any(|c| counts.get(&c.name).is_some_and(|n| *n > 0)) => {
                    tokio::time::sleep(DRAIN_LOOK).await;
                }
                _ => return,
            }
        }
    }

    /// Open connections by cluster.
    async fn connections(&self) -> anyhow::Result<HashMap<String, i64>> {
        let path = "/stats?filter=%5Ecluster%5C..*%5C.upstream_cx_active%24";
        Ok(parse_counts(&ask(&self.admin, "GET", path).await?))
    }
}

/// Lines like `cluster.edge-web.upstream_cx_active: 3`.
fn parse_counts(text: &str) -> HashMap<String, i64> {
    let count = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let name = name.strip_prefix("cluster.")?.strip_suffix(".upstream_cx_active")?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

/// The body of an answer of Envoy's admin interface.
async fn ask(at: &Address, method: &str, path: &str) -> anyhow::Result<String> {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: envoy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let exchange = async {
        match at {
            Address::Tcp(at) => exchange(TcpStream::connect(at).await?, &request).await,
            Address::Unix(path) => exchange(UnixStream::connect(path).await?, &request).await,
        }
    };
    let answer =
        timeout(ADMIN_LIMIT, exchange).await.context("Envoy's admin interface does not answer")??;
    let (head, body) =
        answer.split_once("\r\n\r\n").context("Envoy's admin interface does not speak HTTP")?;
    anyhow::ensure!(head.split(' ').nth(1) == Some("200"), "Envoy's admin interface says: {head}");
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok(if chunked { unchunk(body) } else { body.to_owned() })
}

/// Sends a request and gives everything that comes back.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Joins the chunks of a body; stops at the first that makes no sense.
fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = rest.get(..size).filter(|chunk| !chunk.is_empty()) else { break };
        whole.push_str(chunk);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counts_from_chunked_statistics() {
        let body = "1c\r\ncluster.a.upstream_cx_active\r\n4\r\n: 3\n\r\n0\r\n\r\n";
        assert_eq!(parse_counts(&unchunk(body)).get("a"), Some(&3));
        assert!(unchunk("zz\r\nrubbish").is_empty());
        assert!(parse_counts("cluster.a.upstream_cx_total: 3").is_empty());
    }
}
