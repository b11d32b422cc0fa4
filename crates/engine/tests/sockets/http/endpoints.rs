//! Connections to endpoints: used again, given up, tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::backend::{Client, HttpBackend, all_to, get, ok, plan, status};
use crate::support::{Running, eventually, nobody};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_the_endpoint_closed_meanwhile_costs_no_request() {
    // Each connection is good for one request, though nothing says so.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await;
            count.fetch_add(1, Relaxed);
            stream.write_all(&ok("once")).await.unwrap();
        }
    });
    let mut client = Client::connect(&running).await;
    for _ in 0..50 {
        let (head, body) = client.ask(get("a", "/")).await;
        assert_eq!((status(&head), body.as_str()), (200, "once"));
    }
    assert_eq!(served.load(Relaxed), 50);
    serving.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_can_not_be_reached_is_passed_over() {
    let backend = HttpBackend::named("here").await;
    let running = Running::start(&all_to(&[nobody().await, backend.address])).await;
    let mut client = Client::connect(&running).await;
    for _ in 0..6 {
        let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(client.ask(request).await.1, "here");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_elsewhere_with_their_bodies_and_nobody_waits_for_them() {
    let backend = HttpBackend::named("here").await;
    let there = HttpBackend::named("there").await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let routes = "      - {name: all, filters: [{mirror: {cluster: there}}, {mirror: {cluster: mute}}, \
                  {mirror: {cluster: there, perHundredThousand: 0}}], action: {forward: c}}";
    let mute_at = mute.local_addr().unwrap();
    let clusters: [(&str, &[_]); 3] =
        [("c", &[backend.address]), ("there", &[there.address]), ("mute", &[mute_at])];
    let running = Running::start(&plan(routes, &clusters)).await;
    let mut client = Client::connect(&running).await;
    let large = "x".repeat(100_000);
    for request in [
        get("a", "/1"),
        format!("POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{large}", large.len()),
        "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned(),
    ] {
        assert_eq!(client.ask(request).await.1, "here");
    }
    let bodies = |backend: &HttpBackend| {
        let mut bodies: Vec<_> = backend.asked().into_iter().map(|a| (a.line().to_owned(), a.body)).collect();
        bodies.sort();
        bodies
    };
    eventually("three copies", || there.asked().len() == 3).await;
    assert_eq!(bodies(&there), bodies(&backend));
    running.stop().await;
}

/// An endpoint of copies may say first that it goes on, though nobody asks it: its connection is used again all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_ask_for_no_word_before_the_answer_and_hear_the_answer_after_one() {
    let backend = HttpBackend::named("here").await;
    let there = HttpBackend::answering(|_| {
        let first = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        [&first[..], &ok("there")].concat()
    })
    .await;
    let routes = "      - {name: all, filters: [{mirror: {cluster: there}}], action: {forward: c}}";
    let running =
        Running::start(&plan(routes, &[("c", &[backend.address]), ("there", &[there.address])])).await;
    let mut client = Client::connect(&running).await;
    for turn in 1..=5 {
        let request = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(client.ask(request).await.1, "here");
        eventually("another copy", || there.asked().len() == turn).await;
        eventually("its end", || running.metric(&["envoy_cluster_upstream_cx_active", "\"there\""]) == 0)
            .await;
    }
    for asked in there.asked() {
        assert_eq!((asked.values("expect"), &asked.body[..]), (vec![], &b"hi"[..]));
    }
    assert_eq!(backend.asked()[0].values("expect"), ["100-continue"]);
    assert_eq!(there.connections(), 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_shared_by_weight_and_tried_again_as_the_plan_says() {
    let failures = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failures);
    let sick = HttpBackend::answering(move |_| {
        count.fetch_add(1, Relaxed);
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec()
    })
    .await;
    let [one, three] = [HttpBackend::named("one").await, HttpBackend::named("three").await];
    let routes = "      - {name: shared, matches: [{path: {prefix: /shared}}], action: {forward: [{cluster: one, weight: 1}, {cluster: three, weight: 3}]}}\n\
                  \x20     - {name: again, matches: [{path: {prefix: /again}}], retry: {attempts: 2, statuses: [503], backoff: 1ms}, action: {forward: mixed}}\n\
                  \x20     - {name: sick, matches: [{path: {prefix: /sick}}], retry: {attempts: 2, statuses: [503], backoff: 1ms}, action: {forward: sick}}";
    let clusters: [(&str, &[_]); 4] = [
        ("one", &[one.address]),
        ("three", &[three.address]),
        ("mixed", &[sick.address, one.address]),
        ("sick", &[sick.address]),
    ];
    let running = Running::start(&plan(routes, &clusters)).await;
    let mut client = Client::connect(&running).await;
    let mut ones = 0;
    for _ in 0..40 {
        ones += usize::from(client.ask(get("a", "/shared")).await.1 == "one");
    }
    assert!((8..=12).contains(&ones), "{ones}");
    for _ in 0..4 {
        assert_eq!(client.ask(get("a", "/again")).await.1, "one");
    }
    let before = failures.load(Relaxed);
    assert_eq!(status(&client.ask(get("a", "/sick")).await.0), 503);
    assert_eq!(failures.load(Relaxed) - before, 3, "one attempt and two more");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_done_twice_is_not_and_a_pause_has_the_requests_time() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let sick = HttpBackend::answering(move |_| {
        counted.fetch_add(1, Relaxed);
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec()
    })
    .await;
    let routes = "      - {name: soon, matches: [{path: {prefix: /soon}}], retry: {attempts: 2, statuses: [503], backoff: 1ms}, action: {forward: c}}\n\
                  \x20     - {name: late, matches: [{path: {prefix: /late}}], timeouts: {request: 2s}, retry: {attempts: 2, statuses: [503], backoff: 1m}, action: {forward: c}}\n\
                  \x20     - {name: long, matches: [{path: {prefix: /long}}], retry: {attempts: 2, statuses: [503], backoff: 1m}, action: {forward: c}}";
    let running = Running::start(&plan(routes, &[("c", &[sick.address])])).await;
    let mut client = Client::connect(&running).await;
    let attempts = || count.swap(0, Relaxed);
    for (method, expected) in [("GET", 3), ("DELETE", 3), ("POST", 1), ("PATCH", 1)] {
        let request = format!("{method} /soon HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status(&client.ask(request).await.0), 503);
        assert_eq!(attempts(), expected, "{method}");
    }
    // Nobody waits a minute for a request that has two seconds.
    assert_eq!(status(&client.ask(get("a", "/late")).await.0), 504);
    assert_eq!(attempts(), 1);
    // Nor for a client that has left.
    let mut leaving = Client::connect(&running).await;
    leaving.send(get("a", "/long")).await;
    eventually("an attempt", || count.load(Relaxed) == 1).await;
    leaving.stream.set_zero_linger().unwrap();
    drop(leaving);
    running.closed("clientReset", 1).await;
    assert_eq!(attempts(), 1);
    running.stop().await;
}
