//! Tunnels of datagrams.

use std::net::SocketAddr;
use std::time::Duration;

use causeway_ir::Period;
use causeway_ir::tunnel::{Tunnel, TunnelProtocol, TunnelState};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::pair::{Pair, any, tunnel, within};

/// Sends each datagram back with the address that it came from in front.
async fn service() -> SocketAddr {
    let socket = UdpSocket::bind(any()).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            let answer = [from.to_string().as_bytes(), b" ", &buffer[..count]].concat();
            socket.send_to(&answer, from).await.ok();
        }
    });
    address
}

fn datagrams(target: SocketAddr) -> Tunnel {
    Tunnel { protocol: TunnelProtocol::Udp, ..tunnel(1, &[target]) }
}

async fn client(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(any()).await.expect("a port");
    socket.connect(("127.0.0.1", port)).await.expect("connects");
    socket
}

/// The answer without the address in front of it, and that address.
async fn ask(socket: &UdpSocket, question: &[u8]) -> (String, Vec<u8>) {
    socket.send(question).await.expect("sends");
    within("an answer", answer(socket)).await
}

/// The same, asking again and again as those do who use datagrams.
async fn ask_until_answered(socket: &UdpSocket, question: &[u8]) -> (String, Vec<u8>) {
    within("an answer", async {
        loop {
            socket.send(question).await.expect("sends");
            if let Ok(answer) = timeout(Duration::from_millis(500), answer(socket)).await {
                break answer;
            }
        }
    })
    .await
}

async fn answer(socket: &UdpSocket) -> (String, Vec<u8>) {
    let mut buffer = vec![0; 65_536];
    let count = socket.recv(&mut buffer).await.expect("receives");
    let cut = buffer[..count].iter().position(|byte| *byte == b' ').expect("an address");
    let from = String::from_utf8(buffer[..cut].to_vec()).expect("text");
    (from, buffer[cut + 1..count].to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_a_session_of_its_own() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![datagrams(service().await)]).await;
    let (one, two) = (client(port).await, client(port).await);
    let (from_one, answer) = ask(&one, b"one").await;
    assert_eq!(answer, b"one");
    let (from_two, answer) = ask(&two, b"two").await;
    assert_eq!(answer, b"two");
    assert_ne!(from_one, from_two);
    let (again, _) = ask(&one, b"once more").await;
    assert_eq!(again, from_one, "the session is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_and_empty_datagrams_stay_whole() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![datagrams(service().await)]).await;
    let client = client(port).await;
    for size in [0, 1, 1_400, 9_000, 60_000] {
        let question = vec![b'x'; size];
        let (_, answer) = ask(&client, &question).await;
        assert_eq!(answer.len(), size);
        assert!(answer == question);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_session_ends_and_the_client_gets_another() {
    let pair = Pair::start().await;
    let short =
        Tunnel { idle_timeout: Period::new(Duration::from_millis(200)), ..datagrams(service().await) };
    let port = pair.carry(vec![short]).await;
    let client = client(port).await;
    let (before, _) = ask(&client, b"before").await;
    within("the session's end", async {
        while pair.host.counters(1).expect("counted").streams > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The container may not know of the end yet, and a datagram for it is lost, as datagrams are.
    let (after, answer) = ask_until_answered(&client, b"after").await;
    assert_eq!(answer, b"after");
    assert_ne!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_goes_is_missed_and_answers_the_same_client_when_it_comes_again() {
    let pair = Pair::start().await;
    let there = UdpSocket::bind(any()).await.expect("a port");
    let address = there.local_addr().expect("an address");
    let port = pair.carry(vec![datagrams(address)]).await;
    let client = client(port).await;
    let heard = async |socket: &UdpSocket, word: &[u8]| {
        let mut buffer = [0; 64];
        within("the datagram", async {
            loop {
                let (count, _) = socket.recv_from(&mut buffer).await.expect("receives");
                if &buffer[..count] == word {
                    break;
                }
            }
        })
        .await;
    };
    client.send(b"hello").await.expect("sends");
    heard(&there, b"hello").await;
    drop(there);
    pair.state(1, |state| matches!(state, TunnelState::Unreachable { .. })).await;
    client.send(b"too early").await.expect("sends");
    let again = UdpSocket::bind(address).await.expect("the same port");
    client.send(b"again").await.expect("sends");
    heard(&again, b"again").await;
    assert_eq!(pair.listening(1).await, port);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_endpoint_is_removed() {
    let pair = Pair::start().await;
    let (old, new) = (service().await, service().await);
    let port = pair.carry(vec![datagrams(old)]).await;
    let client = client(port).await;
    let (before, _) = ask(&client, b"before").await;
    pair.host.carry(vec![datagrams(new)]);
    within("the session's end", async {
        while pair.host.counters(1).expect("counted").streams > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (after, answer) = ask_until_answered(&client, b"after").await;
    assert_eq!(answer, b"after");
    assert_ne!(before, after, "another session, with the endpoint that is left");
}
