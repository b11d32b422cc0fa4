//! Whether a gateway gives the answers that prove names: an issuer that looks too soon refuses the name.

use std::time::Duration;

use causeway_translate::hostname::{Picture, World, order::Proof};
use futures::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(2);
/// More than any answer of ours has.
const LONGEST: u64 = 16 * 1024;

/// Gateways that are asked at a time.
const AT_ONCE: usize = 16;

/// Asks for every proof that nobody was told of yet, and notes in the world which are answered.
pub(super) async fn answers(world: &mut World, picture: &Picture) {
    let Some(port) = world.settings.http_port else { return };
    let mut questions = Vec::new();
    for case in picture.cases.values() {
        let Some(order) = case.certificate.pending.as_ref().filter(|order| !order.told) else { continue };
        let Some(gateway) = case.proving_gateway(world) else { continue };
        let Some(address) = world.gateways.get(gateway).and_then(|member| member.addresses.first()) else {
            continue;
        };
        for proof in &order.proofs {
            let Proof::Http { host, path, body } = proof else { continue };
            questions.push(async move {
                let is_so = is_answered(address, port, host, path, body).await;
                is_so.then(|| (gateway.to_owned(), (host.clone(), path.clone())))
            });
        }
    }
    let answers: Vec<_> = stream::iter(questions).buffer_unordered(AT_ONCE).collect().await;
    for (gateway, answer) in answers.into_iter().flatten() {
        if let Some(member) = world.gateways.get_mut(&gateway) {
            member.answers.insert(answer);
        }
    }
}

/// An address may be a name: load balancers of clouds have one.
async fn is_answered(address: &str, port: u16, host: &str, path: &str, body: &str) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect((address, port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.take(LONGEST).read_to_string(&mut answer).await.ok()?;
        let (head, said) = answer.split_once("\r\n\r\n")?;
        Some(head.starts_with("HTTP/1.1 200") && said.trim_end() == body.trim_end())
    };
    timeout(PATIENCE, asked).await.ok().flatten().unwrap_or(false)
}
