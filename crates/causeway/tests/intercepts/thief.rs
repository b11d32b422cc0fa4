//! What somebody may try who has an address or a name of another: on one machine and on a cluster.

use std::net::SocketAddr;
use std::time::Duration;

use causeway_link::{Identity, dial};
use causeway_netstack::wireguard::{self, MTU, Peer, SecretKey};
use causeway_netstack::{Config, Stack};
use causeway_stowaway::STOWAWAY;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

/// A request for a page by WireGuard, from an address that the key may have or not.
pub fn fetches(key: SecretKey, hub: &str, endpoint: &str, from: &str, to: &str) -> bool {
    let from = SocketAddr::new(from.parse().unwrap(), 0);
    let to = SocketAddr::new(to.parse().unwrap(), 80);
    let peer = Peer::hub(hub.parse().unwrap(), endpoint.parse().unwrap());
    let fetching = async {
        let (_hub, device) = wireguard::dial(key, MTU, peer).unwrap();
        let (stack, _arrivals) = Stack::start(device, &Config::default());
        let mut flow = stack.connect_tcp(from, to).await.ok()?;
        flow.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        flow.read_to_string(&mut answer).await.ok()?;
        answer.contains("web").then_some(())
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(5), fetching).await }).ok().flatten().is_some()
}

/// Whether a link is had with these papers.
pub fn links(identity: &Identity, endpoint: &str) -> bool {
    let greeting = br#"{"way":"Link","session":"thief"}"#;
    let dialling = async { dial(endpoint.parse().unwrap(), identity, STOWAWAY, greeting).await };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    matches!(runtime.block_on(async { timeout(Duration::from_secs(5), dialling).await }), Ok(Ok(_)))
}
