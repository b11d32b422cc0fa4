//! What an engine shows: the admin paths and the access log.

use causeway_engine::{AccessLog, admin};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Backend, Running, eventually, hello, plain_plan, tls_plan};

/// The status and body of a GET.
async fn get(admin_address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin_address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_shows_the_plan_and_what_runs() {
    let backend = Backend::named("hi").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin_address = listener.local_addr().unwrap();
    let handle = running.handle.clone();
    let serving = tokio::spawn(async move { axum::serve(listener, admin::router(handle)).await });

    assert_eq!(get(admin_address, "/ready").await, (200, "ready\n".to_owned()));
    let mut held = running.connect("in").await;
    held.read_exact(&mut [0; 2]).await.unwrap();
    let json = async |path: &str| serde_json::from_str::<Value>(&get(admin_address, path).await.1).unwrap();
    assert_eq!(json("/connections").await[0]["endpoint"], backend.address.to_string());
    assert_eq!(json("/clusters").await[0]["endpoints"][0]["active"], 1);
    assert_eq!(json("/listeners").await[0]["address"], running.address("in").to_string());
    assert_eq!(json("/config_dump").await["clusters"][0]["connectTimeout"], "5s");
    let (_, metrics) = get(admin_address, "/metrics").await;
    assert_eq!(get(admin_address, "/stats/prometheus").await.0, 200);
    assert_eq!(get(admin_address, "/logging").await.0, 404);
    assert!(metrics.contains("envoy_cluster_upstream_cx_active{envoy_cluster_name=\"c\"} 1"), "{metrics}");

    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    running.change(|plan| plan.listeners[0].bind = address).await;
    let (status, why) = get(admin_address, "/ready").await;
    assert!(status == 503 && why.contains("another process listens there"), "{status} {why}");
    drop(held);
    serving.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_connection_has_a_line_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    let backend = Backend::named("hi").await;
    let plan = tls_plan("a.test", &[backend.address], "");
    let running = Running::with(&plan, AccessLog::File(path.clone())).await;
    let hello_a = hello("a.test");
    running.ask("in", &hello_a).await;
    running.ask("in", &hello("b.test")).await;
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    eventually("two lines", || lines().len() == 2).await;
    let of = |name: &str| lines().into_iter().find(|line| line["serverName"] == name).unwrap();
    let (good, refused) = (of("a.test"), of("b.test"));
    assert_eq!(good["reason"], "finished");
    assert_eq!(good["route"], "r");
    assert_eq!(good["endpoint"], backend.address.to_string());
    assert_eq!(good["bytesUp"], hello_a.len());
    assert_eq!(good["bytesDown"], hello_a.len() + 2);
    assert_eq!(refused["reason"], "unknownServerName");
    assert_eq!(refused.get("endpoint"), None);
    running.stop().await;
}
