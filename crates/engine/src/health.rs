//! Active health checks: asks each endpoint of a cluster at an interval whether it answers.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use causeway_ir::{Address, HealthCheck, HealthCheckKind, probe_hello};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
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

/// Checks the endpoints of a cluster for ever.
pub(crate) async fn run(cluster: Arc<Cluster>, check: HealthCheck) {
    let mut streaks: HashMap<Address, Streak> = HashMap::new();
    loop {
        let members = cluster.state();
        let mut asked = JoinSet::new();
        for member in &members.members {
            let (address, check) = (member.endpoint.address.clone(), check.clone());
            asked.spawn(async move {
                let answer = tokio::time::timeout(check.timeout.get(), ask(&address, check.kind)).await;
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
        tokio::time::sleep(check.interval.get()).await;
    }
}

async fn ask(address: &Address, kind: HealthCheckKind) -> io::Result<bool> {
    match address {
        Address::Socket(address) => probe(TcpStream::connect(address).await?, kind).await,
        Address::Unix(path) => probe(UnixStream::connect(path).await?, kind).await,
        Address::Place(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

async fn probe(mut stream: impl AsyncRead + AsyncWrite + Unpin, kind: HealthCheckKind) -> io::Result<bool> {
    match kind {
        HealthCheckKind::Tcp => Ok(true),
        HealthCheckKind::Tls => {
            stream.write_all(&probe_hello::bytes()).await?;
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
        let parsed = client_hello::parse(&probe_hello::bytes());
        assert!(matches!(parsed, client_hello::Parsed::Hello(hello) if hello.server_name.is_none()));
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
