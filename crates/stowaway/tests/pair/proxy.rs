//! The proxy, with clients of its own: SOCKS5 and HTTP on one port.

use std::net::SocketAddr;
use std::sync::Arc;

use causeway_stowaway::hub::Reach;
use causeway_stowaway::laptop::proxy::Proxy;
use causeway_testkit::soon;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::cluster::{Cluster, UID, ip};
use crate::services::{any, echo, echoes, hears, nobody, udp_echo};

struct Proxied {
    proxy: Proxy,
    _cluster: Cluster,
}

impl Proxied {
    async fn start(password: Option<&str>) -> Self {
        let cluster = Cluster::start().await;
        cluster.hub.set_reach(Reach {
            addresses: [ip("127.0.0.1")].into(),
            names: [("web.shop".to_owned(), vec![ip("127.0.0.1")])].into(),
            ..Reach::default()
        });
        let laptop = Arc::new(cluster.laptop(UID).await);
        let proxy = Proxy::bind(any(), password.map(str::to_owned), laptop).await.expect("a port");
        Self { proxy, _cluster: cluster }
    }

    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.expect("connects")
    }

    /// Asks by SOCKS5; gives the answer and the connection.
    async fn socks(&self, command: u8, place: &[u8], port: u16) -> (u8, TcpStream, SocketAddr) {
        let mut stream = self.dial().await;
        stream.write_all(&[5, 1, 0]).await.expect("writes");
        hears(&mut stream, "\u{5}\0").await;
        let request = [&[5, command, 0][..], place, &port.to_be_bytes()].concat();
        stream.write_all(&request).await.expect("writes");
        let mut answer = [0; 10];
        soon("an answer", stream.read_exact(&mut answer)).await.expect("reads");
        let bound = SocketAddr::from((
            [answer[4], answer[5], answer[6], answer[7]],
            u16::from_be_bytes([answer[8], answer[9]]),
        ));
        (answer[1], stream, bound)
    }
}

fn named(name: &str) -> Vec<u8> {
    [&[3, name.len() as u8], name.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn socks_connects_to_addresses_and_names() {
    let (proxied, service, silent) = (Proxied::start(None).await, echo("hi ").await, nobody().await);
    for place in [vec![1, 127, 0, 0, 1], named("web.shop"), named("127.0.0.1")] {
        let (reply, mut stream, _) = proxied.socks(1, &place, service.port()).await;
        assert_eq!(reply, 0, "{place:?}");
        hears(&mut stream, "hi ").await;
        echoes(&mut stream, "through").await;
        stream.write_all(b"last").await.expect("writes");
        stream.shutdown().await.expect("ends");
        let mut rest = String::new();
        soon("the rest", stream.read_to_string(&mut rest)).await.expect("reads");
        assert_eq!(rest, "last");
    }
    for (command, place, port, wanted) in [
        (1, vec![1, 127, 0, 0, 1], silent.port(), 5),
        (1, vec![1, 10, 1, 2, 3], 80, 2),
        (1, named("nobody.shop"), 80, 4),
        (1, named("no name"), 80, 8),
        (2, vec![1, 127, 0, 0, 1], 80, 7),
    ] {
        let (reply, ..) = proxied.socks(command, &place, port).await;
        assert_eq!(reply, wanted, "{command} {place:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn socks_carries_datagrams() {
    let (proxied, service) = (Proxied::start(None).await, udp_echo().await);
    let (reply, control, relay) = proxied.socks(3, &[1, 0, 0, 0, 0], 0).await;
    assert_eq!(reply, 0);
    let socket = UdpSocket::bind(any()).await.expect("a port");
    for place in [vec![1, 127, 0, 0, 1], named("web.shop")] {
        let head = [&[0, 0, 0][..], &place, &service.port().to_be_bytes()].concat();
        for text in [&b"one"[..], b"two"] {
            let datagram = [&head, text].concat();
            socket.send_to(&datagram, relay).await.expect("sends");
            let mut answer = vec![0; 1000];
            let (count, from) = soon("an answer", socket.recv_from(&mut answer)).await.expect("receives");
            assert!(answer[..count] == datagram && from == relay);
        }
    }
    for bad in [&b""[..], &[0, 0, 1, 1, 127, 0, 0, 1, 0, 80, 1], &[0, 0, 0, 9], &[0, 0, 0, 3, 200, 1]] {
        socket.send_to(bad, relay).await.expect("sends");
    }
    // Another process of this machine is not heard.
    let other = UdpSocket::bind(any()).await.expect("a port");
    let head = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &service.port().to_be_bytes()].concat();
    other.send_to(&[&head, &b"mine"[..]].concat(), relay).await.expect("sends");
    socket.send_to(&[&head, &b"own"[..]].concat(), relay).await.expect("sends");
    let mut answer = vec![0; 1000];
    let (count, _) = soon("an answer", socket.recv_from(&mut answer)).await.expect("receives");
    assert_eq!(&answer[..count], [&head, &b"own"[..]].concat());
    assert!(other.try_recv(&mut answer).is_err());
    drop(control);
    soon("it ends with the connection", async {
        // The socket is closed, and the kernel says so.
        let socket = UdpSocket::bind(any()).await.expect("a port");
        socket.connect(relay).await.expect("connects");
        while socket.send(b"x").await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Says something and reads until the end.
async fn say(mut stream: TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.expect("writes");
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.expect("reads");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn http_connects() {
    let (proxied, service, silent) = (Proxied::start(None).await, echo("hi ").await, nobody().await);
    for host in ["127.0.0.1", "web.shop"] {
        let mut stream = proxied.dial().await;
        // What follows at once is not lost.
        let ask = format!("CONNECT {host}:{0} HTTP/1.1\r\nHost: {host}:{0}\r\n\r\nearly", service.port());
        stream.write_all(ask.as_bytes()).await.expect("writes");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon("the head", stream.read_u8()).await.expect("reads"));
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        hears(&mut stream, "hi early").await;
        echoes(&mut stream, "through").await;
        stream.shutdown().await.expect("ends");
        let mut rest = String::new();
        soon("the end", stream.read_to_string(&mut rest)).await.expect("reads");
        assert_eq!(rest, "");
    }
    for (target, wanted) in [
        (format!("127.0.0.1:{}", silent.port()), "502"),
        ("10.1.2.3:80".to_owned(), "403"),
        ("nobody.shop:80".to_owned(), "502"),
        ("web.shop".to_owned(), "400"),
    ] {
        let ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
        let answer = say(proxied.dial().await, &ask).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{target}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_requests_with_a_whole_address_are_forwarded() {
    let proxied = Proxied::start(None).await;
    let server = TcpListener::bind(any()).await.expect("a port");
    let port = server.local_addr().expect("an address").port();
    let serving = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = server.accept().await.expect("a client");
            let mut head = Vec::new();
            while !head.ends_with(b"body!") && !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("reads"));
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: 5\r\n\r\nok")
                .await
                .expect("writes");
            heads.push(String::from_utf8(head).expect("text"));
        }
        heads
    });
    let ask = |method: &str, rest: &str| {
        format!(
            "{method} http://web.shop:{port}/path?q=1 HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nX-Mine: 1\r\n{rest}"
        )
    };
    // Two on one connection.
    let both = ask("GET", "\r\n") + &ask("GET", "Connection: close\r\n\r\n");
    let answer = say(proxied.dial().await, &both).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert!(!answer.to_lowercase().contains("keep-alive"), "{answer}");
    for head in serving.await.expect("no panic") {
        assert!(head.starts_with("GET /path?q=1 HTTP/1.1\r\n"), "{head}");
        let lower = head.to_lowercase();
        assert!(
            lower.contains(&format!("host: web.shop:{port}\r\n")) && lower.contains("x-mine: 1"),
            "{head}"
        );
        assert!(!lower.contains("proxy-connection"), "{head}");
    }
    for (bad, wanted) in [
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400"),
        ("GET https://web.shop/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400"),
        ("GET http://10.1.2.3/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "403"),
        ("\r\n\r\nrubbish\r\n\r\n", "400"),
    ] {
        let answer = say(proxied.dial().await, bad).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{bad}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_goes_through() {
    let proxied = Proxied::start(None).await;
    let server = TcpListener::bind(any()).await.expect("a port");
    let port = server.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut stream, _) = server.accept().await.expect("a client");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("reads"));
        }
        assert!(String::from_utf8_lossy(&head).to_lowercase().contains("upgrade: websocket"));
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            )
            .await
            .expect("writes");
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.ok();
    });
    let mut stream = proxied.dial().await;
    let ask = format!(
        "GET http://web.shop:{port}/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.expect("writes");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon("the head", stream.read_u8()).await.expect("reads"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    echoes(&mut stream, "something else than HTTP").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_asked_for() {
    let (proxied, service) = (Proxied::start(Some("secret")).await, echo("").await);
    let mut stream = proxied.dial().await;
    stream.write_all(&[5, 1, 0]).await.expect("writes");
    let mut answer = [0; 2];
    soon("an answer", stream.read_exact(&mut answer)).await.expect("reads");
    assert_eq!(answer, [5, 0xff], "without one");
    for (password, wanted) in [("wrong!", 1), ("secret", 0)] {
        let mut stream = proxied.dial().await;
        stream.write_all(&[5, 2, 0, 2]).await.expect("writes");
        soon("an answer", stream.read_exact(&mut answer)).await.expect("reads");
        assert_eq!(answer, [5, 2]);
        let given = [&[1, 1, b'u', password.len() as u8][..], password.as_bytes()].concat();
        stream.write_all(&given).await.expect("writes");
        soon("an answer", stream.read_exact(&mut answer)).await.expect("reads");
        assert_eq!(answer, [1, wanted], "{password}");
        if wanted == 0 {
            let [a, b] = service.port().to_be_bytes();
            stream.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, a, b]).await.expect("writes");
            soon("an answer", stream.read_exact(&mut [0; 10])).await.expect("reads");
            echoes(&mut stream, "inside").await;
        }
    }
    let ask =
        |more: &str| format!("CONNECT {service} HTTP/1.1\r\nHost: x\r\n{more}Connection: close\r\n\r\n");
    for (more, wanted) in [
        ("", "407"),
        ("Proxy-Authorization: Basic dTp3cm9uZyE=\r\n", "407"),
        ("Proxy-Authorization: Bearer secret\r\n", "407"),
    ] {
        let answer = say(proxied.dial().await, &ask(more)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{more}: {answer}");
    }
    let mut stream = proxied.dial().await;
    stream.write_all(ask("Proxy-Authorization: Basic dTpzZWNyZXQ=\r\n").as_bytes()).await.expect("writes");
    hears(&mut stream, "HTTP/1.1 200").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_harms_nobody() {
    let (proxied, service) = (Proxied::start(None).await, echo("").await);
    for bytes in [
        &[5][..],
        &[5, 200, 1],
        &[5, 0],
        &[5, 1, 0, 4, 1, 0, 1],
        &[5, 1, 0, 5, 1, 0, 9, 9],
        &[4, 1, 0, 80],
        &[0xff; 5000],
    ] {
        let mut stream = proxied.dial().await;
        stream.write_all(bytes).await.ok();
        stream.shutdown().await.ok();
        soon("its end", stream.read_to_end(&mut Vec::new())).await.ok();
    }
    let (reply, mut stream, _) = proxied.socks(1, &[1, 127, 0, 0, 1], service.port()).await;
    assert_eq!(reply, 0);
    echoes(&mut stream, "still").await;
}
