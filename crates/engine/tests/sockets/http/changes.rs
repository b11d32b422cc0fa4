//! Plans that change while requests are served, and listeners that go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::backend::{Client, HttpBackend, all_to, get, ok, plan, status};
use crate::support::{PATIENCE, Running};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_change_between_two_requests_of_one_connection_and_no_request_is_lost() {
    let [one, two] = [HttpBackend::named("one").await, HttpBackend::named("two").await];
    let route = |cluster: &str| format!("      - {{name: r, action: {{forward: {cluster}}}}}");
    let clusters: [(&str, &[_]); 2] = [("one", &[one.address]), ("two", &[two.address])];
    let mut running = Running::start(&plan(&route("one"), &clusters)).await;
    let mut client = Client::connect(&running).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut busy = Client::connect(&running).await;
    let told = Arc::clone(&over);
    let asking = tokio::spawn(async move {
        let mut count = 0;
        while !told.load(Relaxed) {
            assert_eq!(status(&busy.ask(get("a", "/")).await.0), 200);
            count += 1;
        }
        count
    });
    for turn in 0..50 {
        let name = ["one", "two"][turn % 2];
        running
            .change(|plan| {
                let text = format!("http: {{routes: [{{name: r, action: {{forward: {name}}}}}]}}");
                plan.listeners[0].protocol = serde_saphyr::from_str(&text).unwrap();
            })
            .await;
        assert_eq!(client.ask(get("a", "/")).await.1, name);
    }
    over.store(true, Relaxed);
    assert!(asking.await.unwrap() > 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_goes_lets_requests_finish_and_closes_idle_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut running =
        Running::start(&format!("{}drainTimeout: 1h", all_to(&[listener.local_addr().unwrap()]))).await;
    let (idle, mut busy) = (Client::connect(&running).await, Client::connect(&running).await);
    busy.send(get("a", "/")).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let _ = server.read(&mut [0; 1000]).await.unwrap();
    running.change(|plan| plan.listeners.clear()).await;
    assert_eq!(idle.rest().await, "");
    server.write_all(&ok("done")).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, busy.rest()).await.unwrap();
    assert!(answer.ends_with("done"), "{answer}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_end_clients_are_told_with_their_next_answer_and_others_still_come() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let mut kept = Client::connect(&running).await;
    let (head, _) = kept.ask(get("a", "/")).await;
    assert!(!head.contains("connection: close"), "{head}");
    running.handle.say_farewell();
    for mut client in [kept, Client::connect(&running).await] {
        let (head, body) = client.ask(get("a", "/")).await;
        assert!(head.contains("connection: close") && body == "ok", "{head}");
        assert_eq!(client.rest().await, "");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let backend = HttpBackend::named("ok").await;
    let running =
        Running::start(&format!("{}limits: {{handshakeTimeout: 200ms}}", all_to(&[backend.address]))).await;
    let mut half = Client::connect(&running).await;
    half.send("GET / HTTP/1.1\r\nHost:").await;
    assert_eq!(status(&half.rest().await), 408);
    assert_eq!(Client::connect(&running).await.rest().await, "");
    running.closed("idleTimeout", 1).await;
    running.stop().await;
}
