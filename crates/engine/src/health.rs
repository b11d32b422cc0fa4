//! Active health checks: asks each endpoint of a cluster at an interval whether it answers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::{HealthCheck, HealthCheckKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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
            Self::Good(count) => (count >= check.healthy_after).then_some(true),
            Self::Bad(count) => (count >= check.unhealthy_after).then_some(false),
        }
    }
}

/// Checks the endpoints of a cluster for ever.
pub async fn run(cluster: Arc<Cluster>, check: HealthCheck) {
    let mut streaks: HashMap<SocketAddr, Streak> = HashMap::new();
    loop {
        let members = cluster.state();
        let mut asked = JoinSet::new();
        for member in &members.members {
            let (address, check) = (member.endpoint.address, check.clone());
            asked.spawn(async move {
                let answer = tokio::time::timeout(check.timeout, ask(address, check.kind)).await;
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
            let streak = streaks.entry(endpoint.address).or_insert(Streak::Good(0));
            *streak = streak.then(good);
            if let Some(healthy) = streak.verdict(&check)
                && healthy != endpoint.is_healthy()
            {
                endpoint.set_healthy(healthy);
                tracing::info!(cluster = cluster.name, endpoint = %endpoint.address, healthy, "health changed");
            }
        }
        tokio::time::sleep(check.interval).await;
    }
}

async fn ask(address: SocketAddr, kind: HealthCheckKind) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    match kind {
        HealthCheckKind::Tcp => Ok(true),
        HealthCheckKind::Tls => {
            stream.write_all(&hello()).await?;
            let mut first = [0];
            let count = stream.read(&mut first).await?;
            // 22 is a handshake: a ServerHello, or the wish for another key share. An alert is a refusal.
            Ok(count == 1 && first == [22])
        }
    }
}

/// A ClientHello for TLS 1.2 and 1.3 that offers no key share: the server may choose everything.
fn hello() -> Vec<u8> {
    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }
    let ciphers: [u16; 9] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8];
    let mut body = vec![3, 3];
    body.extend([0x5a; 32]); // The random: nothing is ever encrypted with it.
    body.push(0); // no session
    body.extend(((ciphers.len() * 2) as u16).to_be_bytes());
    body.extend(ciphers.iter().flat_map(|cipher| cipher.to_be_bytes()));
    body.extend([1, 0]); // no compression
    let extensions = [
        extension(10, &[0, 6, 0, 29, 0, 23, 0, 24]), // groups: x25519, P-256, P-384
        extension(11, &[1, 0]),                      // uncompressed points
        extension(13, &[0, 14, 4, 3, 5, 3, 6, 3, 8, 4, 8, 5, 8, 6, 8, 7]), // signatures
        extension(43, &[4, 3, 4, 3, 3]),             // versions: 1.3, 1.2
        extension(51, &[0, 0]),                      // key shares: none
    ]
    .concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_hello;

    #[test]
    fn the_hello_is_one() {
        let parsed = client_hello::parse(&hello());
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
