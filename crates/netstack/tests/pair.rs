//! Stacks over WireGuard on loopback: a hub and its laptops, all in this process.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_netstack::wireguard::{self, Hub, MTU, Peer, PublicKey, SecretKey};
use causeway_netstack::{Arrivals, Config, Incoming, Stack, TcpFlow};
use causeway_testkit::{Dice, eventually, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;

fn address(last: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (last >> 8) as u8, last as u8], 0))
}

fn peer(key: PublicKey, last: u16) -> Peer {
    Peer::new(key, vec![format!("{}/32", address(last).ip()).parse().unwrap()])
}

fn hub_at(key: &SecretKey, listen: SocketAddr) -> std::io::Result<(Hub, Stack, Arrivals)> {
    let (hub, device) = wireguard::bind(wireguard::Config::new(key.clone(), listen))?;
    let (stack, arrivals) = Stack::start(device, &Config::default());
    Ok((hub, stack, arrivals))
}

fn hub() -> (Hub, Stack, Arrivals) {
    hub_at(&SecretKey::generate(), ([127, 0, 0, 1], 0).into()).unwrap()
}

fn laptop(key: &SecretKey, hub: &Hub, endpoint: SocketAddr) -> (Hub, Stack, Arrivals) {
    let (own, device) = wireguard::dial(key.clone(), MTU, Peer::hub(hub.public_key(), endpoint)).unwrap();
    let (stack, arrivals) = Stack::start(device, &Config::default());
    (own, stack, arrivals)
}

/// Says back whatever is said.
fn echo(mut arrivals: Arrivals) {
    tokio::spawn(async move {
        while let Some(incoming) = arrivals.next().await {
            tokio::spawn(async move {
                if let Incoming::Tcp(pending) = incoming {
                    let (mut read, mut write) = tokio::io::split(pending.accept());
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                    let _ = write.shutdown().await;
                }
            });
        }
    });
}

async fn connect(stack: &Stack, from: u16) -> std::io::Result<TcpFlow> {
    stack.connect_tcp(address(from), ([10, 9, 9, 9], 80).into()).await
}

/// Whether what is said comes back.
async fn talks(flow: &mut TcpFlow, words: &[u8]) -> bool {
    let mut heard = vec![0; words.len()];
    flow.write_all(words).await.is_ok() && flow.read_exact(&mut heard).await.is_ok() && heard == words
}

async fn carry(flow: TcpFlow, amount: usize) {
    let sent: Vec<u8> = (0..amount).map(|n| (n / 241) as u8).collect();
    let (mut read, mut write) = tokio::io::split(flow);
    let words = sent.clone();
    let writing = tokio::spawn(async move {
        write.write_all(&words).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut heard = Vec::new();
    soon("all of it", read.read_to_end(&mut heard)).await.unwrap();
    soon("all is written", writing).await.unwrap();
    assert!(heard == sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_goes_both_ways_at_once() {
    let (hub, _stack, arrivals) = hub();
    echo(arrivals);
    let key = SecretKey::generate();
    hub.set_peers(vec![peer(key.public(), 2)]);
    let (_, stack, _arrivals) = laptop(&key, &hub, hub.local_addr());
    let flows =
        (0..4).map(async |_| carry(soon("connected", connect(&stack, 2)).await.unwrap(), 8 << 20).await);
    futures::future::join_all(flows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_laptops_share_one_hub() {
    const LAPTOPS: u16 = 100;
    let (hub, stack, arrivals) = hub();
    echo(arrivals);
    let keys: Vec<SecretKey> = (0..LAPTOPS).map(|_| SecretKey::generate()).collect();
    hub.set_peers((2..).zip(&keys).map(|(last, key)| peer(key.public(), last)).collect());
    let talks = (2..).zip(&keys).map(async |(last, key)| {
        let (_, own, mut arrivals) = laptop(key, &hub, hub.local_addr());
        let mut flow = soon("connected", connect(&own, last)).await.unwrap();
        assert!(soon("an echo", talks(&mut flow, &last.to_be_bytes())).await);
        // And it is reached in its turn.
        let to = SocketAddr::new(address(last).ip(), 3000);
        let reaching = stack.connect_tcp(([10, 9, 9, 9], 0).into(), to);
        let (reached, ()) = tokio::join!(reaching, async {
            let Some(Incoming::Tcp(pending)) = arrivals.next().await else { panic!() };
            assert_eq!(pending.to(), to);
            pending.accept().write_all(b"hello").await.unwrap();
        });
        let mut heard = String::new();
        soon("a greeting", reached.unwrap().read_to_string(&mut heard)).await.unwrap();
        assert_eq!(heard, "hello");
    });
    futures::future::join_all(talks).await;
    let standings = hub.standings();
    assert_eq!(standings.len(), usize::from(LAPTOPS));
}

#[tokio::test]
async fn who_is_taken_off_the_list_is_cut_and_nobody_else_is() {
    let (hub, stack, arrivals) = hub();
    echo(arrivals);
    let keys = [SecretKey::generate(), SecretKey::generate()];
    let peers = vec![peer(keys[0].public(), 2), peer(keys[1].public(), 3)];
    hub.set_peers(peers.clone());
    let one = laptop(&keys[0], &hub, hub.local_addr());
    let two = laptop(&keys[1], &hub, hub.local_addr());
    let mut first = soon("connected", connect(&one.1, 2)).await.unwrap();
    let mut second = soon("connected", connect(&two.1, 3)).await.unwrap();
    assert!(talks(&mut first, b"one").await && talks(&mut second, b"two").await);
    hub.set_peers(peers[1..].to_vec());
    eventually("it is off the list", async || hub.standings().len() == 1).await;
    stack.cut(address(2).ip());
    assert!(talks(&mut second, b"still here").await);
    let silent = tokio::time::timeout(Duration::from_millis(300), talks(&mut first, b"hello?")).await;
    assert!(silent.is_err(), "nothing of it is taken");
    hub.set_peers(peers);
    let error = soon("what was open is reset", first.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(talks(&mut soon("welcome back", connect(&one.1, 2)).await.unwrap(), b"again").await);
}

#[tokio::test]
async fn a_hub_that_was_restarted_is_found_again() {
    let (hub_key, key) = (SecretKey::generate(), SecretKey::generate());
    let (hub, stack, arrivals) = hub_at(&hub_key, ([127, 0, 0, 1], 0).into()).unwrap();
    let place = hub.local_addr();
    hub.set_peers(vec![peer(key.public(), 2)]);
    echo(arrivals);
    let (_, own, _arrivals) = laptop(&key, &hub, place);
    let mut flow = soon("connected", connect(&own, 2)).await.unwrap();
    assert!(talks(&mut flow, b"before").await);
    drop((hub, stack));
    // It has lost all keys that were agreed on.
    let (hub, _stack, arrivals) = eventually("the port is free", async || hub_at(&hub_key, place)).await;
    hub.set_peers(vec![peer(key.public(), 2)]);
    echo(arrivals);
    let mut flow = eventually("connected again", async || connect(&own, 2).await).await;
    assert!(talks(&mut flow, b"after").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_where_much_is_lost() {
    let (hub, _stack, arrivals) = hub();
    echo(arrivals);
    let key = SecretKey::generate();
    hub.set_peers(vec![peer(key.public(), 2)]);
    let relay = lossy(hub.local_addr(), 3).await;
    let (_, own, _arrivals) = laptop(&key, &hub, relay);
    let flows =
        (0..3).map(async |_| carry(soon("connected", connect(&own, 2)).await.unwrap(), 1 << 20).await);
    futures::future::join_all(flows).await;
}

/// A place before the hub where so many of a hundred datagrams are lost.
async fn lossy(hub: SocketAddr, percent: u64) -> SocketAddr {
    let outer = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let inner = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    inner.connect(hub).await.unwrap();
    let place = outer.local_addr().unwrap();
    let (client_tx, client_rx) = tokio::sync::watch::channel(None);
    tokio::spawn({
        let (outer, inner) = (Arc::clone(&outer), Arc::clone(&inner));
        async move {
            let (mut buffer, mut dice) = ([0; 2048], Dice::new(3));
            while let Ok((count, from)) = outer.recv_from(&mut buffer).await {
                client_tx.send_replace(Some(from));
                if dice.below(100) >= percent {
                    let _ = inner.send(&buffer[..count]).await;
                }
            }
        }
    });
    tokio::spawn(async move {
        let (mut buffer, mut dice) = ([0; 2048], Dice::new(4));
        while let Ok(count) = inner.recv(&mut buffer).await {
            let client = *client_rx.borrow();
            if let Some(client) = client.filter(|_| dice.below(100) >= percent) {
                let _ = outer.send_to(&buffer[..count], client).await;
            }
        }
    });
    place
}

#[tokio::test]
async fn rubbish_at_the_port_disturbs_nobody() {
    let (hub, _stack, arrivals) = hub();
    echo(arrivals);
    let key = SecretKey::generate();
    hub.set_peers(vec![peer(key.public(), 2)]);
    let (_, own, _arrivals) = laptop(&key, &hub, hub.local_addr());
    let mut flow = soon("connected", connect(&own, 2)).await.unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut dice = Dice::new(9);
    for round in 0..2000_u32 {
        let length = [0, 1, 32, 64, 92, 148, 1452][dice.below(7) as usize];
        let mut rubbish: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
        if let Some(first) = rubbish.get_mut(..4) {
            first.copy_from_slice(&[dice.below(6) as u8, 0, 0, 0]);
        }
        let _ = stranger.send_to(&rubbish, hub.local_addr()).await;
        if round % 100 == 0 {
            assert!(soon("an echo", talks(&mut flow, &round.to_be_bytes())).await);
        }
    }
}
