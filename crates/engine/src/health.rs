//! Active health checks: asks each endpoint of a cluster at an interval whether it answers. Intervals are never quite the
//! same, and so many questions are under way at a time and no more, however many clusters there are.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use causeway_base::backoff::spread;
use causeway_ir::{Address, HealthCheck, HealthCheckKind, probe_hello};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cluster::Cluster;

/// Good or bad answers in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streak {
    Good(u32),
    Bad(u32),
}

impl Streak {
    fn then(self, good: bool) -> Self {
        match (self, good) {
            (Self::Good(count), true) => Self::Good(count.saturating_add(1)),
            (Self::Bad(count), false) => Self::Bad(count.saturating_add(1)),
            (_, true) => Self::Good(1),
            (_, false) => Self::Bad(1),
        }
    }

    /// What it says of the endpoint, if it is long enough to say anything.
    fn verdict(self, check: &HealthCheck) -> Option<bool> {
        match self {
            Self::Good(count) => (count >= check.healthy_after.get()).then_some(true),
            Self::Bad(count) => (count >= check.unhealthy_after.get()).then_some(false),
        }
    }
}

/// Questions at a time.
const AT_ONCE: usize = 64;

/// What all checks of an engine share: the right to ask.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// Checks the endpoints of a cluster for ever.
pub(crate) async fn run(cluster: Arc<Cluster>, check: HealthCheck, turns: Turns) {
    let mut streaks: HashMap<Address, Streak> = HashMap::new();
    loop {
        let members = cluster.state();
        let mut asked = JoinSet::new();
        for member in &members.members {
            let (address, check, turns) = (member.endpoint.address.clone(), check.clone(), turns.clone());
            asked.spawn(async move {
                // The semaphore is never closed. To wait for a turn is not the endpoint's fault.
                let _turn = turns.0.acquire().await;
                let answer = tokio::time::timeout(check.timeout.get(), ask(&address, &check)).await;
                (address, matches!(answer, Ok(Ok(true))))
            });
        }
        let mut answers = HashMap::new();
        while let Some(answer) = asked.join_next().await {
            answers.extend(answer.ok());
        }
        streaks.retain(|address, _| answers.contains_key(address));
        for member in &members.members {
            let endpoint = &member.endpoint;
            let Some(good) = answers.get(&endpoint.address).copied() else { continue };
            let streak = streaks.entry(endpoint.address.clone()).or_insert(Streak::Good(0));
            *streak = streak.then(good);
            if let Some(healthy) = streak.verdict(&check)
                && healthy != endpoint.is_healthy()
            {
                endpoint.set_healthy(healthy);
                tracing::info!(cluster = %cluster.name, endpoint = %endpoint.address, healthy, "health changed");
            }
        }
        tokio::time::sleep(spread(check.interval.get())).await;
    }
}

async fn ask(address: &Address, check: &HealthCheck) -> io::Result<bool> {
    match address {
        Address::Socket(address) => probe(TcpStream::connect(address).await?, check).await,
        Address::Unix(path) => probe(UnixStream::connect(path).await?, check).await,
        Address::Place(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

async fn probe(mut stream: impl AsyncRead + AsyncWrite + Unpin, check: &HealthCheck) -> io::Result<bool> {
    match check.kind {
        HealthCheckKind::Tcp => Ok(true),
        HealthCheckKind::Tls => {
            stream.write_all(&probe_hello::bytes(check.server_name.as_deref())).await?;
            let mut first = [0];
            let count = stream.read(&mut first).await?;
            // An alert is a refusal.
            Ok(count == 1 && probe_hello::ANSWER.starts_with(&first))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::client_hello;

    #[test]
    fn the_hello_is_one() {
        for name in [None, Some("a.test")] {
            let parsed = client_hello::parse(&probe_hello::bytes(name));
            let client_hello::Parsed::Hello(hello) = parsed else { panic!("{parsed:?}") };
            assert_eq!(hello.server_name.as_deref(), name);
        }
    }

    /// Endpoints that take a connection and say nothing for as long as they are asked.
    #[tokio::test]
    async fn so_many_are_asked_at_a_time_and_no_more() {
        const ALL: usize = 3 * AT_ONCE;
        /// Less than a question takes that nobody answers.
        const SOON: std::time::Duration = std::time::Duration::from_millis(200);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // One address each: endpoints of the same are one.
        let endpoints = (1..=ALL).map(|i| {
            let address = std::net::Ipv4Addr::new(127, 77, 1, u8::try_from(i).unwrap());
            causeway_ir::Endpoint::new(std::net::SocketAddr::from((address, port)))
        });
        let plan = causeway_ir::Cluster::new(causeway_ir::Name::parse("c").unwrap(), endpoints.collect());
        let cluster = Arc::new(Cluster::new(&plan, &mut crate::cluster::SettingsPool::default()));
        let check = serde_saphyr::from_str("{kind: tls, timeout: 300ms, interval: 1h}").unwrap();
        drop(listener);
        let listener = tokio::net::TcpListener::bind(("0.0.0.0", port)).await.unwrap();
        let asking = tokio::spawn(run(cluster, check, Turns::default()));
        let (mut open, mut most, mut asked) = (JoinSet::new(), 0, 0);
        while asked < ALL || !open.is_empty() {
            tokio::select! {
                accepted = listener.accept() => {
                    let (mut stream, _) = accepted.unwrap();
                    asked += 1;
                    open.spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
                    // Those that were closed before this one came are seen soon; those that are still asked are not.
                    let gone = async { while open.len() > AT_ONCE { open.join_next().await; } };
                    tokio::time::timeout(SOON, gone).await.expect("too many at a time");
                    most = most.max(open.len());
                }
                Some(_) = open.join_next() => {}
            }
        }
        asking.abort();
        assert_eq!(asked, ALL);
        assert!((2..=AT_ONCE).contains(&most), "{most} at a time");
    }

    #[test]
    fn one_bad_answer_does_not_decide() {
        let check: HealthCheck = serde_saphyr::from_str("kind: tcp").unwrap();
        let mut streak = Streak::Good(9);
        let verdicts: Vec<_> = [false, false, false, true, true]
            .into_iter()
            .map(|good| {
                streak = streak.then(good);
                streak.verdict(&check)
            })
            .collect();
        assert_eq!(verdicts, [None, None, Some(false), None, Some(true)]);
    }
}
