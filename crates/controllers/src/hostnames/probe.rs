//! Whether a gateway gives the answers that prove names: an issuer that looks too soon refuses the name.

use std::{net::IpAddr, time::Duration};

use causeway_translate::hostname::{Picture, World, order::Proof};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(2);
/// More than any answer of ours has.
const LONGEST: u64 = 16 * 1024;

/// Asks for every proof that nobody was told of yet, and notes in the world which are answered.
pub(super) async fn answers(world: &mut World, picture: &Picture) {
    let Some(port) = world.settings.http_port else { return };
    for case in picture.cases.values() {
        let Some(order) = case.certificate.pending.as_ref().filter(|order| !order.told) else { continue };
        let Some(member) = case.gateway.as_ref().and_then(|name| world.gateways.get_mut(name)) else {
            continue;
        };
        let address = member.addresses.iter().find_map(|address| address.parse::<IpAddr>().ok());
        let Some(address) = address else { continue };
        for proof in &order.proofs {
            let Proof::Http { host, path, body } = proof else { continue };
            if is_answered(address, port, host, path, body).await {
                member.answers.insert((host.clone(), path.clone()));
            }
        }
    }
}

async fn is_answered(address: IpAddr, port: u16, host: &str, path: &str, body: &str) -> bool {
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
