//! Datagrams: a client is a session with one endpoint until it idles.

use std::time::Duration;

use causeway_ir::Period;
use causeway_testkit::PATIENCE;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

use crate::backend::Datagrams;
use crate::plans::{cluster, endpoint, plan, udp};
use crate::proxy::{Engine, Proxy};

on_both!(
    clients_have_a_session_each,
    a_session_ends_when_it_idles_and_not_before,
    datagrams_of_every_size_pass_whole,
    new_sessions_go_to_new_endpoints,
    only_allowed_sources_are_heard,
);

async fn start(engine: Engine, server: &Datagrams, idle: Duration) -> Proxy {
    let mut cluster = cluster("c", &[server.address]);
    cluster.idle_timeout = Period::new(idle).unwrap();
    Proxy::start(engine, plan([udp("in", "c")], [cluster])).await
}

async fn client(proxy: &Proxy) -> UdpSocket {
    client_of(proxy, "in").await
}

async fn client_of(proxy: &Proxy, listener: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(proxy.address(listener)).await.unwrap();
    socket
}

/// Sends a datagram, expects it back, and gives the port that the server saw.
async fn ask(socket: &UdpSocket, word: &[u8]) -> u16 {
    let mut answer = vec![0; 64 << 10];
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "no answer");
        socket.send(word).await.unwrap();
        // A datagram may be lost while the proxy opens its sockets: then it is sent again.
        let Ok(received) = timeout(Duration::from_secs(1), socket.recv(&mut answer)).await else { continue };
        let count = received.unwrap();
        assert!(&answer[2..count] == word, "another datagram came back");
        return u16::from_be_bytes([answer[0], answer[1]]);
    }
}

async fn clients_have_a_session_each(engine: Engine) {
    let server = Datagrams::echo().await;
    let proxy = start(engine, &server, Duration::from_mins(1)).await;
    let (one, two) = (client(&proxy).await, client(&proxy).await);
    let (port_one, port_two) = (ask(&one, b"hello").await, ask(&two, b"hello").await);
    assert_ne!(port_one, port_two);
    for i in 0..20u8 {
        assert_eq!(ask(&one, &[1, i]).await, port_one);
        assert_eq!(ask(&two, &[2, i]).await, port_two);
    }
}

async fn a_session_ends_when_it_idles_and_not_before(engine: Engine) {
    const IDLE: Duration = Duration::from_secs(1);
    let server = Datagrams::echo().await;
    let proxy = start(engine, &server, IDLE).await;
    let socket = client(&proxy).await;
    let port = ask(&socket, b"hello").await;
    // Longer than the limit in all, but never so long without a datagram.
    let mut beat = tokio::time::interval(IDLE / 4);
    for i in 0..7u8 {
        beat.tick().await;
        assert_eq!(ask(&socket, &[i]).await, port);
    }
    // An engine may look for idle sessions every half second only.
    let silence = timeout(IDLE + Duration::from_secs(1), socket.recv(&mut [0; 16])).await;
    assert!(silence.is_err(), "nobody was asked anything");
    assert_ne!(ask(&socket, b"again").await, port);
}

async fn datagrams_of_every_size_pass_whole(engine: Engine) {
    let server = Datagrams::echo().await;
    let proxy = start(engine, &server, Duration::from_mins(1)).await;
    let socket = client(&proxy).await;
    for size in [1, 2, 100, 512, 1232, 1400] {
        ask(&socket, &vec![7; size]).await;
    }
}

async fn new_sessions_go_to_new_endpoints(engine: Engine) {
    let (old, new) = (Datagrams::echo().await, Datagrams::echo().await);
    let mut proxy = start(engine, &old, Duration::from_mins(1)).await;
    let before = client(&proxy).await;
    ask(&before, b"hello").await;
    proxy.change(|plan| plan.clusters[0].endpoints[0] = endpoint(new.address)).await;
    let after = client(&proxy).await;
    ask(&after, b"hello").await;
    assert!(new.heard() > 0, "the new session is at the new endpoint");
}

async fn only_allowed_sources_are_heard(engine: Engine) {
    let server = Datagrams::echo().await;
    let (mut open, mut shut) = (udp("open", "c"), udp("shut", "c"));
    open.allowed_sources = vec!["127.0.0.0/8".parse().unwrap()];
    shut.allowed_sources = vec!["10.0.0.0/8".parse().unwrap()];
    let proxy = Proxy::start(engine, plan([open, shut], [cluster("c", &[server.address])])).await;
    let (open, shut) = (client_of(&proxy, "open").await, client_of(&proxy, "shut").await);
    for _ in 0..5 {
        shut.send(b"let me in").await.unwrap();
        ask(&open, b"hello").await;
    }
    let silence = timeout(Duration::from_millis(500), shut.recv(&mut [0; 16])).await;
    assert!(silence.is_err(), "{silence:?}");
}
