//! WebSocket and other protocols that take over a connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::backend::{Client, HttpBackend, all_to, get, plan, status};
use crate::support::{PATIENCE, Running, eventually};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protocol_is_changed_when_the_endpoint_says_so_and_outlives_its_route() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut running =
        Running::start(&format!("{}drainTimeout: 1h", all_to(&[listener.local_addr().unwrap()]))).await;
    let mut client = Client::connect(&running).await;
    client.send(format!("{UPGRADE}early")).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let mut bytes = vec![0; 1000];
    let count = server.read(&mut bytes).await.unwrap();
    let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
    assert!(
        head.contains("upgrade: websocket")
            && head.contains("connection: upgrade")
            && !head.contains("early"),
        "{head}"
    );
    server
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: y\r\n\r\nhello")
        .await
        .unwrap();
    let (head, _) = client.answer().await;
    assert!(
        status(&head) == 101
            && head.contains("Sec-WebSocket-Accept: y")
            && head.contains("upgrade: websocket"),
        "{head}"
    );
    let mut early = [0; 5];
    tokio::time::timeout(PATIENCE, server.read_exact(&mut early)).await.unwrap().unwrap();
    assert_eq!(&early, b"early");

    // The routes change, and then the listener goes: the stream does not notice.
    running
        .change(|plan| {
            plan.listeners[0].protocol =
                serde_saphyr::from_str("http: {routes: [{name: other, action: {respond: {status: 200}}}]}")
                    .unwrap();
        })
        .await;
    server.write_all(b"still").await.unwrap();
    running.change(|plan| plan.listeners.clear()).await;
    client.send("here").await;
    let mut heard = [0; 4];
    tokio::time::timeout(PATIENCE, server.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"here");
    server.shutdown().await.unwrap();
    drop(server);
    assert!(client.rest().await.ends_with("still"));
    eventually("no connection", || running.metric(&["causeway_connections_active"]) == 0).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_what_was_removed_is_kept_streams_go_on_when_its_time_is_over() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let routes = "      - {name: ws, action: {forward: c}}\n      - {name: idle, matches: [{path: {exact: /idle}}], action: {respond: {status: 200}}}";
    let plan = plan(routes, &[("c", &[listener.local_addr().unwrap()])]);
    let mut running = Running::start(&format!("{plan}drainTimeout: 100ms\nonRemoval: keep")).await;
    let mut client = Client::connect(&running).await;
    client.send(UPGRADE).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let _ = server.read(&mut [0; 1000]).await.unwrap();
    server
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(status(&client.answer().await.0), 101);
    let shown = |running: &Running, route: &str| {
        running.metric(&["causeway_requests", &format!("route=\"{route}\"")]) > 0
    };
    let asked = async |running: &Running| {
        let mut other = Client::connect(running).await;
        assert_eq!(status(&other.ask(get("a", "/idle")).await.0), 200);
    };
    asked(&running).await;
    eventually("the route without streams has counted", || shown(&running, "idle")).await;
    let other = "http: {routes: [{name: other, action: {respond: {status: 200}}}]}";
    running.change(|plan| plan.listeners[0].protocol = serde_saphyr::from_str(other).unwrap()).await;
    eventually("the time of removed routes is over", || !shown(&running, "idle")).await;
    both_ways(&mut client, &mut server).await;

    asked(&running).await;
    eventually("the other route has counted", || shown(&running, "other")).await;
    running
        .change(|plan| {
            plan.listeners.clear();
            plan.clusters.clear();
        })
        .await;
    eventually("the time of the removed listener is over", || !shown(&running, "other")).await;
    both_ways(&mut client, &mut server).await;
    let series = running.metric(&["envoy_cluster_upstream_cx_active", "envoy_cluster_name=\"c\""]);
    assert_eq!(series, 1, "a cluster with streams is shown");
    running.stop().await;
}

/// Says something in both directions of a tunnel.
async fn both_ways(client: &mut Client, server: &mut TcpStream) {
    client.send("here").await;
    let mut heard = [0; 4];
    tokio::time::timeout(PATIENCE, server.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"here");
    server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    assert_eq!(status(&client.answer().await.0), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_changes_the_protocol_alone() {
    let backend = HttpBackend::answering(|asked| {
        if asked.line().contains("/refuses") {
            return b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".to_vec()
    })
    .await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let mut client = Client::connect(&running).await;
    // The client never asked.
    assert_eq!(status(&client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.0), 502);
    // The endpoint refuses: what follows are requests as before.
    let refused = UPGRADE.replace("/ws", "/refuses");
    assert_eq!(status(&client.ask(&refused).await.0), 403);
    assert_eq!(status(&client.ask(&refused).await.0), 403);
    // A body goes with no upgrade.
    let with_body = refused.replace("\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(status(&client.ask(&with_body).await.0), 403);
    let last = backend.asked().pop().unwrap();
    assert!(last.values("upgrade").is_empty() && last.body == b"hi", "{last:?}");
    tokio::time::timeout(Duration::from_secs(20), running.stop()).await.unwrap();
}
