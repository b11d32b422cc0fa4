//! PROXY protocol: the true client's address taken from whoever is in front, and told to whoever is behind.

use std::net::SocketAddr;

use causeway_ir::{AcceptProxyProtocol, Plan, ProxyVersion};
use tokio::io::AsyncWriteExt;

use crate::backend::Backend;
use crate::client;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, one, plan, route};
use crate::proxy::{Engine, Proxy};

on_both!(
    version_1_tells_the_client_and_the_listener,
    version_2_tells_the_client_and_the_listener,
    headers_of_both_versions_are_accepted_and_passed_on,
    a_header_in_any_number_of_segments_is_accepted,
    a_header_before_a_hello_is_taken_off,
    a_header_that_names_nobody_leaves_the_connection_its_own_addresses,
    a_connection_without_a_header_is_refused,
);

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn v1(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

fn v2(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let (family, addresses) = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => (0x11, [from.ip().octets(), to.ip().octets()].concat()),
        (SocketAddr::V6(from), SocketAddr::V6(to)) => (0x21, [from.ip().octets(), to.ip().octets()].concat()),
        _ => panic!("addresses of two families"),
    };
    let length = (addresses.len() + ports.len()) as u16;
    [SIGNATURE, &[0x21, family], &length.to_be_bytes(), &addresses, &ports].concat()
}

fn header(version: ProxyVersion, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    match version {
        ProxyVersion::V1 => v1(from, to),
        ProxyVersion::V2 => v2(from, to),
    }
}

/// A plan that takes headers, passes them on as this version, and leads to a server that echoes all it hears.
fn passing(backend: &Backend, version: ProxyVersion) -> Plan {
    let mut plan = one(&[backend.address]);
    plan.listeners[0].accept_proxy_protocol = Some(AcceptProxyProtocol::default());
    plan.clusters[0].send_proxy_protocol = Some(version);
    plan
}

async fn tells(engine: Engine, version: ProxyVersion) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.clusters[0].send_proxy_protocol = Some(version);
    let proxy = Proxy::start(engine, plan).await;
    let mut stream = proxy.connect("in").await;
    let expected = header(version, stream.local_addr().unwrap(), proxy.address("in"));
    stream.write_all(b"hello").await.unwrap();
    let wanted = [expected, b"hello".to_vec()].concat();
    assert_eq!(client::read(&mut stream, wanted.len()).await, wanted);
}

async fn version_1_tells_the_client_and_the_listener(engine: Engine) {
    tells(engine, ProxyVersion::V1).await;
}

async fn version_2_tells_the_client_and_the_listener(engine: Engine) {
    tells(engine, ProxyVersion::V2).await;
}

fn clients() -> [(SocketAddr, SocketAddr); 2] {
    let pair = |from: &str, to: &str| (from.parse().unwrap(), to.parse().unwrap());
    [pair("192.0.2.7:4711", "198.51.100.1:443"), pair("[2001:db8::7]:4711", "[2001:db8::1]:443")]
}

async fn headers_of_both_versions_are_accepted_and_passed_on(engine: Engine) {
    let backend = Backend::echo("").await;
    for out in [ProxyVersion::V1, ProxyVersion::V2] {
        let proxy = Proxy::start(engine, passing(&backend, out)).await;
        for (from, to) in clients() {
            for sent in [v1(from, to), v2(from, to)] {
                let answer = proxy.ask("in", &[&sent[..], b"hello"].concat()).await;
                assert_eq!(answer, [header(out, from, to), b"hello".to_vec()].concat(), "{sent:?}");
            }
        }
    }
}

async fn a_header_in_any_number_of_segments_is_accepted(engine: Engine) {
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, passing(&backend, ProxyVersion::V2)).await;
    let [(from, to), _] = clients();
    for sent in [v1(from, to), v2(from, to)] {
        let mut stream = proxy.connect("in").await;
        // Slow enough for bytes to arrive one by one.
        let mut beat = tokio::time::interval(std::time::Duration::from_micros(200));
        for byte in [&sent[..], b"hello"].concat() {
            beat.tick().await;
            stream.write_all(&[byte]).await.unwrap();
        }
        let wanted = [v2(from, to), b"hello".to_vec()].concat();
        assert_eq!(client::read(&mut stream, wanted.len()).await, wanted);
    }
}

async fn a_header_before_a_hello_is_taken_off(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut listener = by_name("in", [route(&["a.test"], "c")]);
    listener.accept_proxy_protocol = Some(AcceptProxyProtocol::default());
    let proxy = Proxy::start(engine, plan([listener], [cluster("c", &[backend.address])])).await;
    let hello = Hello::to("a.test").bytes();
    for (from, to) in clients() {
        for sent in [v1(from, to), v2(from, to)] {
            assert_eq!(proxy.ask("in", &[&sent[..], &hello].concat()).await, hello);
        }
    }
}

async fn a_header_that_names_nobody_leaves_the_connection_its_own_addresses(engine: Engine) {
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, passing(&backend, ProxyVersion::V1)).await;
    let local = [SIGNATURE, &[0x20, 0, 0, 0]].concat();
    for sent in [b"PROXY UNKNOWN\r\n".to_vec(), local] {
        let mut stream = proxy.connect("in").await;
        let own = v1(stream.local_addr().unwrap(), proxy.address("in"));
        stream.write_all(&[&sent[..], b"hello"].concat()).await.unwrap();
        let answer = client::read(&mut stream, own.len() + 5).await;
        assert_eq!(answer, [own, b"hello".to_vec()].concat(), "{sent:?}");
    }
}

async fn a_connection_without_a_header_is_refused(engine: Engine) {
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, passing(&backend, ProxyVersion::V1)).await;
    for sent in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PROXY TCP4 nonsense\r\n", b"PROXY TCP5 a b 1 2\r\n"] {
        let mut stream = proxy.connect("in").await;
        stream.write_all(sent).await.unwrap();
        assert_eq!(client::rest(&mut stream).await.0, b"", "{sent:?}");
    }
    assert_eq!(backend.accepted(), 0);
}
