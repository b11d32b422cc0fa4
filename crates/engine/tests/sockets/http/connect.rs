//! CONNECT: a stream of bytes to an endpoint of the route, where a route asks for it, and nowhere else.

use std::time::Duration;

use bytes::Bytes;
use causeway_engine::AccessLog;
use http::{Method, Request, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::backend::{Client, HttpBackend, get, plan, status};
use super::streams::{StreamClient, answer, next, push, read, soon};
use crate::pki::{Authority, given};
use crate::support::{Backend, PATIENCE, Running, eventually, nobody};

const ROUTES: &str = "      - {name: open, hosts: [open.test], policies: {connect: true}, action: {forward: c}}\n\
    \x20     - {name: few, hosts: [few.test], policies: {connect: true, allowedClients: [192.0.2.0/24]}, action: {forward: c}}\n\
    \x20     - {name: down, hosts: [down.test], policies: {connect: true}, action: {forward: none}}\n\
    \x20     - {name: moved, hosts: [moved.test], policies: {connect: true}, action: {respond: {status: 410}}}\n\
    \x20     - {name: other, action: {forward: c}}";

fn ask(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
}

/// The same in a stream.
fn asking(authority: &str) -> Request<()> {
    let uri = Uri::builder().authority(authority).build().unwrap();
    Request::builder().method(Method::CONNECT).uri(uri).body(()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_go_to_the_routes_endpoint_whatever_address_was_named() {
    let named = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Backend::named("hello ").await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let text = plan(ROUTES, &[("c", &[endpoint.address]), ("none", &[])]);
    let mut running = Running::with(&format!("{text}drainTimeout: 1h"), AccessLog::File(log.clone())).await;
    let port = named.local_addr().unwrap().port();
    let mut client = Client::connect(&running).await;
    // What comes with the request is for the endpoint, too.
    client.send(format!("{}early GET / HTTP/1.1\r\n\r\n", ask(&format!("open.test:{port}")))).await;
    let expected = "HTTP/1.1 200 OK\r\n\r\nhello early GET / HTTP/1.1\r\n\r\n";
    let mut heard = vec![0; expected.len()];
    tokio::time::timeout(PATIENCE, client.stream.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(heard).unwrap(), expected);
    // Routes and listeners change; what is open stays.
    running.change(|plan| plan.listeners.clear()).await;
    client.send("later").await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "later");
    eventually("no connection", || running.metric(&["causeway_connections_active"]) == 0).await;
    assert!(tokio::time::timeout(Duration::ZERO, named.accept()).await.is_err(), "nobody goes there");
    running.stop().await;
    let logged = std::fs::read_to_string(&log).unwrap();
    let line: serde_json::Value = serde_json::from_str(logged.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["method"], &line["status"], &line["route"]),
        (&"CONNECT".into(), &200.into(), &"open".into())
    );
    assert_eq!((&line["host"], &line["bytesUp"]), (&"open.test".into(), &29.into()), "{logged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tunnel_is_made_where_nobody_asked_for_one() {
    let backend = HttpBackend::named("ok").await;
    let gone = nobody().await;
    let text = plan(ROUTES, &[("c", &[backend.address]), ("none", &[gone])]);
    let running = Running::start(&text).await;
    let streams = StreamClient::connect(&running).await;
    for (authority, expected) in [
        ("other.test:443", 405),
        (&backend.address.to_string(), 405),
        ("few.test:443", 403),
        ("down.test:443", 502),
        ("moved.test:443", 410),
        ("open.test", 400),
    ] {
        // What follows belongs to nobody: it is no request.
        let mut client = Client::connect(&running).await;
        client.send(format!("{}{}", ask(authority), get("other.test", "/smuggled"))).await;
        let heard = client.rest().await;
        assert_eq!(
            (status(&heard), heard.matches("HTTP/1.1").count()),
            (expected, 1),
            "{authority}: {heard}"
        );
        let (coming, _stream) = streams.send(asking(authority), false).await.unwrap();
        assert_eq!(answer(coming).await.unwrap().status, expected, "{authority}");
    }
    let body = ask("open.test:1").replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello");
    let mut client = Client::connect(&running).await;
    assert_eq!(status(&client.ask(body).await.0), 400);
    assert_eq!(backend.connections(), 0);
    // Other requests of such a route are what they were.
    assert_eq!(streams.get("open.test", "/").await.body, "ok");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_http_2_carries_bytes_and_ends_each_way_by_itself() {
    let endpoint = Backend::named("hello").await;
    let mut running = Running::start(&plan(ROUTES, &[("c", &[endpoint.address]), ("none", &[])])).await;
    let client = StreamClient::connect(&running).await;
    let (coming, mut to_server) = client.send(asking("open.test:22"), false).await.unwrap();
    let (parts, mut body) = soon(coming).await.unwrap().into_parts();
    assert_eq!((parts.status.as_u16(), parts.headers.len()), (200, 0));
    assert_eq!(next(&mut body).await, "hello");
    push(&mut to_server, Bytes::from_static(b"ping"), false).await.unwrap();
    assert_eq!(next(&mut body).await, "ping");
    // Endpoints that speak HTTP/2 are not spoken to in it.
    running.change(|plan| plan.clusters[0].http_version = causeway_ir::HttpVersion::Http2).await;
    let (coming, mut other) = client.send(asking("open.test:22"), false).await.unwrap();
    let mut second = soon(coming).await.unwrap().into_body();
    assert_eq!(next(&mut second).await, "hello");
    other.send_data(Bytes::from_static(b"bye"), true).unwrap();
    assert_eq!(read(&mut second).await.unwrap().0, b"bye");
    to_server.send_data(Bytes::from_static(b"last"), true).unwrap();
    assert_eq!(read(&mut body).await.unwrap().0, b"last");
    running.change(|plan| plan.listeners.clear()).await;
    eventually("no connection", || running.metric(&["causeway_connections_active"]) == 0).await;
    running.stop().await;
}

/// To an endpoint with TLS the bytes go in TLS, to who proves to be it, and a PROXY header stands before those that do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_goes_the_way_of_its_cluster() {
    let authority = Authority::new("inside");
    let issued = authority.issue(&["c.test"]);
    let acceptor = tokio_rustls::TlsAcceptor::from(issued.server(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let text = plan(ROUTES, &[("c", &[address]), ("none", &[])]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[], &[("inside", &authority)]));
    let secured =
        text.replace("{name: c,", "{name: c, transport: {tls: {serverName: c.test, authorities: inside}},");
    let secured = serde_saphyr::from_str(&secured).unwrap();
    let running = Running::with_certificates(secured, AccessLog::Off, certificates_rx).await;
    let mut client = Client::connect(&running).await;
    client.send(format!("{}ping", ask("open.test:1"))).await;
    let mut server = soon(async { acceptor.accept(listener.accept().await.unwrap().0).await }).await.unwrap();
    let mut heard = [0; 4];
    soon(server.read_exact(&mut heard)).await.unwrap();
    assert_eq!((&heard, server.get_ref().1.alpn_protocol()), (b"ping", None));
    server.write_all(b"pong").await.unwrap();
    server.shutdown().await.unwrap();
    drop(server);
    assert!(client.rest().await.ends_with("\r\n\r\npong"));
    running.stop().await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = plan(ROUTES, &[("c", &[listener.local_addr().unwrap()]), ("none", &[])]);
    let running = Running::start(&text.replace("{name: c,", "{name: c, sendProxyProtocol: v1,")).await;
    let mut client = Client::connect(&running).await;
    client.send(format!("{}ping", ask("open.test:1"))).await;
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    client.stream.shutdown().await.unwrap();
    let mut heard = String::new();
    soon(server.read_to_string(&mut heard)).await.unwrap();
    assert!(heard.starts_with("PROXY TCP4 127.0.0.1 ") && heard.ends_with("\r\nping"), "{heard}");
    drop(server);
    running.stop().await;
}
