//! What breaks is made again, with the same ports.

use std::time::Duration;

use causeway_ir::tunnel::LinkState;
use causeway_tunnel::host::{Host, Options};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::pair::{Container, Pair, dial_soon, echo, echoes, listening, tunnel, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn the_container_comes_again_and_so_do_its_tunnels() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = dial_soon(port).await;
    echoes(&mut client, "before").await;
    let Pair { authority, mut container, host } = pair;
    for _ in 0..5 {
        let (control, data) = (container.control, container.data);
        container.end().await;
        until(&host, |status| status.link != LinkState::Up).await;
        within("the old stream's end", client.read(&mut [0; 1])).await.ok();
        container = Container::start(&authority, control, data).await;
        let port = listening(&host, 1).await;
        client = dial_soon(port).await;
        echoes(&mut client, "after").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_comes_again_and_finds_its_ports_where_they_were() {
    let pair = Pair::start().await;
    let service = echo("").await;
    let port = pair.carry(vec![tunnel(1, &[service])]).await;
    let Pair { authority, container, host } = pair;
    let mut client = dial_soon(port).await;
    echoes(&mut client, "before").await;
    drop(host);
    within("the old stream's end", client.read(&mut [0; 1])).await.ok();
    for _ in 0..5 {
        let host = Host::start(Options::new(container.control, container.data, authority.clone()));
        host.carry(vec![tunnel(1, &[service])]);
        assert_eq!(listening(&host, 1).await, port);
        echoes(&mut dial_soon(port).await, "after").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_host_takes_over_from_an_older_one() {
    let pair = Pair::start().await;
    let (old, new) = (echo("old").await, echo("new").await);
    let port = pair.carry(vec![tunnel(1, &[old])]).await;
    let host = Host::start(Options::new(pair.container.control, pair.container.data, pair.authority.clone()));
    host.carry(vec![tunnel(1, &[new])]);
    // Both want the container; whoever has it, clients are served.
    listening(&host, 1).await;
    drop(pair.host);
    listening(&host, 1).await;
    let mut word = [0; 3];
    within("a word", dial_soon(port).await.read_exact(&mut word)).await.expect("reads");
    assert_eq!(&word, b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_follows_the_container_to_other_ports() {
    let pair = Pair::start().await;
    pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let moved = Container::start(&pair.authority, crate::pair::any(), crate::pair::any()).await;
    pair.host.redial(moved.control, moved.data);
    pair.container.end().await;
    let mut client = within("the other container", async {
        loop {
            // The host may not know yet that the first one is gone.
            let port = listening(&pair.host, 1).await;
            if let Ok(client) = TcpStream::connect(("127.0.0.1", port)).await {
                break client;
            }
        }
    })
    .await;
    echoes(&mut client, "hello").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_renewed_under_way_and_streams_go_on() {
    let pair = Pair::with(|options| options.renewal = Duration::from_millis(100)).await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut client = dial_soon(port).await;
    let mut seen = std::collections::HashSet::new();
    within("three certificates", async {
        while seen.len() < 3 {
            echoes(&mut client, "on the first connection").await;
            seen.insert(crate::keeps_out::certificate_of(&pair).await);
            echoes(&mut dial_soon(port).await, "on the newest").await;
        }
    })
    .await;
}
