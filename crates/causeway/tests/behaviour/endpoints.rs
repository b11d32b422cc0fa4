//! Endpoints that refuse, never answer, are not ready, are leaving, or are not there at all.

use std::net::SocketAddr;
use std::time::Duration;

use causeway_ir::{Address, HealthCheck, HealthCheckKind, Limit, Period, Plan};
use causeway_testkit::eventually;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use crate::backend::{Backend, Nobody};
use crate::client;
use crate::plans::{endpoint, one};
use crate::proxy::{Engine, Proxy};

on_both!(
    another_endpoint_is_tried_when_one_refuses,
    another_endpoint_is_tried_when_one_does_not_answer,
    a_cluster_without_endpoints_refuses_at_once,
    a_cluster_whose_endpoints_all_refuse_ends_the_connection,
    an_endpoint_that_does_not_answer_in_time_is_given_up,
    endpoints_that_are_not_ready_get_nothing,
    endpoints_that_are_leaving_are_used_when_nothing_else_is_there,
    endpoints_that_fail_their_health_check_are_left_out,
    a_unix_socket_is_an_endpoint_like_any_other,
    a_silent_connection_ends_after_the_idle_timeout_and_a_busy_one_does_not,
);

/// Far less than anything that waits for a timeout by default.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A server whose queue of connections is full, so that no further one is answered.
struct Deaf {
    address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Deaf {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(connected) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
            queue.push(connected.unwrap());
        }
        Self { address, _listener: listener, _queue: queue }
    }
}

async fn another_endpoint_is_tried_when_one_refuses(engine: Engine) {
    let (nobody, backend) = (Nobody::there(), Backend::echo("a").await);
    let mut plan = one(&[nobody.address, backend.address]);
    plan.clusters[0].ejection.consecutive_failures = 0;
    let proxy = Proxy::start(engine, plan).await;
    for _ in 0..10 {
        assert_eq!(proxy.ask("in", b"hello").await, b"ahello");
    }
}

async fn another_endpoint_is_tried_when_one_does_not_answer(engine: Engine) {
    let (deaf, backend) = (Deaf::new().await, Backend::echo("a").await);
    let mut plan = one(&[deaf.address, backend.address]);
    plan.clusters[0].connect_timeout = Period::new(Duration::from_millis(200)).unwrap();
    let proxy = Proxy::start(engine, plan).await;
    for _ in 0..4 {
        assert_eq!(proxy.ask("in", b"hello").await, b"ahello");
    }
}

async fn a_cluster_without_endpoints_refuses_at_once(engine: Engine) {
    let proxy = Proxy::start(engine, one(&[])).await;
    let began = Instant::now();
    for _ in 0..5 {
        assert!(client::is_refused(proxy.address("in")).await);
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

async fn a_cluster_whose_endpoints_all_refuse_ends_the_connection(engine: Engine) {
    let (one_of_two, other) = (Nobody::there(), Nobody::there());
    let proxy = Proxy::start(engine, one(&[one_of_two.address, other.address])).await;
    let began = Instant::now();
    for _ in 0..5 {
        assert!(client::is_refused(proxy.address("in")).await);
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

async fn an_endpoint_that_does_not_answer_in_time_is_given_up(engine: Engine) {
    const LIMIT: Duration = Duration::from_millis(500);
    let deaf = Deaf::new().await;
    let mut plan = one(&[deaf.address]);
    plan.clusters[0].connect_timeout = Period::new(LIMIT).unwrap();
    plan.clusters[0].retries = 0;
    let proxy = Proxy::start(engine, plan).await;
    let began = Instant::now();
    assert!(client::is_refused(proxy.address("in")).await);
    let took = began.elapsed();
    let early = Duration::from_millis(50);
    assert!(took + early >= LIMIT && took < LIMIT + AT_ONCE, "{took:?}");
}

/// Which of two backends answer ten connections.
async fn answering(proxy: &Proxy) -> String {
    let mut names = String::new();
    for _ in 0..10 {
        let answer = proxy.ask("in", b"").await;
        let name = String::from_utf8(answer).unwrap();
        if !names.contains(&name) {
            names += &name;
        }
    }
    names
}

async fn endpoints_that_are_not_ready_get_nothing(engine: Engine) {
    let (a, b) = (Backend::echo("a").await, Backend::echo("b").await);
    let mut proxy = Proxy::start(engine, one(&[a.address, b.address])).await;
    let state = |ready: bool| {
        move |plan: &mut Plan| {
            plan.clusters[0].endpoints[0].ready = ready;
            plan.clusters[0].endpoints[0].serving = ready;
        }
    };
    proxy.change(state(false)).await;
    assert_eq!(answering(&proxy).await, "b");
    proxy.change(state(true)).await;
    assert_eq!(answering(&proxy).await.len(), 2);
    proxy
        .change(|plan| {
            for endpoint in &mut plan.clusters[0].endpoints {
                (endpoint.ready, endpoint.serving, endpoint.terminating) = (false, false, true);
            }
        })
        .await;
    assert!(client::is_refused(proxy.address("in")).await, "neither ready nor serving");
}

async fn endpoints_that_are_leaving_are_used_when_nothing_else_is_there(engine: Engine) {
    let (a, b) = (Backend::echo("a").await, Backend::echo("b").await);
    let mut proxy = Proxy::start(engine, one(&[a.address, b.address])).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = proxy.connect("in").await;
        client::read(&mut stream, 1).await;
        open.push(stream);
    }
    let leave = |index: usize| {
        move |plan: &mut Plan| {
            let endpoint = &mut plan.clusters[0].endpoints[index];
            (endpoint.ready, endpoint.terminating) = (false, true);
        }
    };
    proxy.change(leave(0)).await;
    assert_eq!(answering(&proxy).await, "b", "the ready one first");
    proxy.change(leave(1)).await;
    assert_eq!(answering(&proxy).await.len(), 2, "both still serve");
    for stream in &mut open {
        client::say(stream, b"still").await;
    }
}

async fn endpoints_that_fail_their_health_check_are_left_out(engine: Engine) {
    let (nobody, backend) = (Nobody::there(), Backend::echo("a").await);
    let mut plan = one(&[nobody.address, backend.address]);
    plan.clusters[0].retries = 0;
    plan.clusters[0].ejection.consecutive_failures = 0;
    plan.clusters[0].health_check = Some(HealthCheck {
        interval: Period::new(Duration::from_millis(100)).unwrap(),
        timeout: Period::from_secs(1),
        unhealthy_after: Limit::ONE,
        healthy_after: Limit::ONE,
        ..HealthCheck::new(HealthCheckKind::Tcp)
    });
    let proxy = Proxy::start(engine, plan).await;
    eventually("only the healthy one is used", async || {
        for _ in 0..6 {
            if client::greeted(proxy.address("in"), b"").await.is_none() {
                return false;
            }
        }
        true
    })
    .await;
}

async fn a_unix_socket_is_an_endpoint_like_any_other(engine: Engine) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let _backend = Backend::echo_on_unix(&path, "a");
    let mut plan = one(&[]);
    plan.clusters[0].endpoints = vec![endpoint(Address::Unix(path.clone()))];
    let mut proxy = Proxy::start(engine, plan).await;
    let mut open = proxy.connect("in").await;
    assert_eq!(client::read(&mut open, 1).await, b"a");
    client::say(&mut open, b"before").await;
    assert_eq!(proxy.ask("in", b"hello").await, b"ahello");
    proxy.change(|plan| plan.clusters[0].endpoints.clear()).await;
    client::say(&mut open, b"after").await;
    assert!(client::is_refused(proxy.address("in")).await);
}

async fn a_silent_connection_ends_after_the_idle_timeout_and_a_busy_one_does_not(engine: Engine) {
    const IDLE: Duration = Duration::from_millis(800);
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.clusters[0].idle_timeout = Period::new(IDLE).unwrap();
    let proxy = Proxy::start(engine, plan).await;
    let (mut silent, mut busy) = (proxy.connect("in").await, proxy.connect("in").await);
    client::say(&mut silent, b"hello").await;
    let began = Instant::now();
    let ending = tokio::spawn(async move { (client::rest(&mut silent).await, Instant::now()) });
    let mut beat = tokio::time::interval(IDLE / 8);
    while !ending.is_finished() || began.elapsed() < IDLE * 3 {
        beat.tick().await;
        client::say(&mut busy, b"hello").await;
    }
    let ((bytes, _), ended) = ending.await.unwrap();
    assert_eq!(bytes, b"");
    assert!(ended - began + Duration::from_millis(50) >= IDLE, "{:?}", ended - began);
}
