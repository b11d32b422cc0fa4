//! New plans while connections are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use causeway_engine::{Engine, Options, SharePorts};
use causeway_ir::{Action, Cluster, Endpoint, Listener, Pattern, Plan, TlsRoute};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::{
    Backend, PATIENCE, Running, forward_to, hello, name, plain_plan, read_all, tls_plan, tls_routes,
};

async fn say(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).await.unwrap();
    let mut echoed = vec![0; word.len()];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut echoed)).await.unwrap().unwrap();
    assert_eq!(echoed, word);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_under_load_fail_no_request_and_break_no_connection() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "")).await;
    let address = running.address("in");
    let mut kept = running.connect("in").await;
    say(&mut kept, b"before").await;
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load: Vec<_> = (0..8)
        .map(|_| {
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.write_all(b"request").await.unwrap();
                    stream.shutdown().await.unwrap();
                    assert_eq!(read_all(&mut stream).await, b"request");
                    served.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    for i in 0..50 {
        running
            .change(|plan| {
                let cluster = format!("c{i}");
                plan.clusters.push(Cluster::new(name(&cluster), vec![Endpoint::new(backend.address)]));
                // The route of the listener moves to the new cluster each time.
                forward_to(plan, &cluster);
            })
            .await;
        assert_eq!(running.address("in"), address);
    }
    stop.store(true, Relaxed);
    for task in load {
        task.await.unwrap();
    }
    assert!(served.load(Relaxed) > 0);
    say(&mut kept, b"after").await;
    drop(kept);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_listener_stops_accepting_and_drains_with_a_limit() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "drainTimeout: 300ms\n")).await;
    let address = running.address("in");
    let mut kept = running.connect("in").await;
    say(&mut kept, b"before").await;
    let began = Instant::now();
    running.change(|plan| plan.listeners.clear()).await;
    assert!(TcpStream::connect(address).await.is_err());
    say(&mut kept, b"still").await;
    assert_eq!(read_all(&mut kept).await, b"");
    assert!(began.elapsed() >= Duration::from_millis(300));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_comes_back_in_time_keeps_its_connections() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "drainTimeout: 1s\n")).await;
    let mut kept = running.connect("in").await;
    say(&mut kept, b"before").await;
    let listeners = running.plan.listeners.clone();
    running.change(|plan| plan.listeners.clear()).await;
    running.change(|plan| plan.listeners = listeners).await;
    let until = Instant::now() + Duration::from_millis(1500);
    let mut beat = tokio::time::interval(Duration::from_millis(20));
    while Instant::now() < until {
        beat.tick().await;
        say(&mut kept, b"on").await;
    }
    drop(kept);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_plan_changes_nothing_and_says_why() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "")).await;
    let good = running.plan.clone();
    running.change(|plan| forward_to(plan, "nope")).await;
    let (_, problems) = running.handle.status().refused.unwrap();
    assert_eq!(problems[0].path, "listeners[0].protocol.tcp.action.forward");
    assert_eq!(running.ask("in", b"on").await, b"on");
    running.change(|plan| *plan = good).await;
    assert!(running.handle.status().refused.is_none());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_asks_for_more_than_the_engine_does_is_refused_with_words() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "")).await;
    let route = "{name: r, filters: [{requestHeaders: {remove: [host]}}], action: {forward: c}}";
    let http = serde_saphyr::from_str(&format!("{{http: {{routes: [{route}]}}}}")).unwrap();
    running.change(|plan| plan.listeners[0].protocol = http).await;
    let (_, problems) = running.handle.status().refused.unwrap();
    assert_eq!(problems[0].path, "listeners[0].protocol.http.routes[0].filters[0].requestHeaders");
    assert!(problems[0].message.contains("this engine writes Host"), "{problems:?}");
    assert_eq!(running.ask("in", b"on").await, b"on");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_fails_alone_and_is_taken_when_free() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&plain_plan(&[backend.address], "")).await;
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = other.local_addr().unwrap();
    running
        .change(|plan| {
            let listener = Listener { name: name("taken"), bind: taken, ..plan.listeners[0].clone() };
            plan.listeners.push(listener);
        })
        .await;
    let missing = running.handle.status().missing();
    assert!(missing.len() == 1 && missing[0].contains("another process listens there"), "{missing:?}");
    assert_eq!(running.ask("in", b"on").await, b"on");
    let good = running.plan.clone();
    running.change(|plan| plan.clusters.clear()).await;
    running.plan = good;
    drop(other);
    let mut status = running.handle.watch();
    tokio::time::timeout(PATIENCE, status.wait_for(|s| s.missing().is_empty())).await.unwrap().unwrap();
    assert_eq!(running.ask("taken", b"on").await, b"on");
    assert!(
        running.handle.status().refused.is_some(),
        "a bad plan is remembered while listening is tried again"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_lets_connections_end() {
    let backend = Backend::named("").await;
    let running = Running::start(&plain_plan(&[backend.address], "")).await;
    let address = running.address("in");
    let mut kept = running.connect("in").await;
    say(&mut kept, b"before").await;
    let handle = running.handle.clone();
    let stopping = tokio::spawn(running.stop());
    handle.watch().wait_for(|status| status.draining).await.unwrap();
    crate::support::eventually("no more connections", || std::net::TcpStream::connect(address).is_err())
        .await;
    say(&mut kept, b"still").await;
    kept.shutdown().await.unwrap();
    assert_eq!(read_all(&mut kept).await, b"");
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_names_are_found_and_changed() {
    let backend = Backend::named("").await;
    let mut running = Running::start(&tls_plan("a.test", &[backend.address], "")).await;
    let route = |i: usize| TlsRoute {
        name: name(&format!("r{i}")),
        server_names: vec![Pattern::parse(&format!("n{i}.test")).unwrap()],
        connection_limit: None,
        action: Action::forward(name("c")),
    };
    running.change(|plan| tls_routes(plan).extend((0..100_000).map(route))).await;
    running.change(|plan| tls_routes(plan).push(route(100_000))).await;
    for name in ["a.test", "n0.test", "n77777.test", "n100000.test"] {
        let hello = hello(name);
        assert_eq!(running.ask("in", &hello).await, hello, "{name}");
    }
    running.stop().await;
}

/// A process that took over from another may open listeners long after that one has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_shared_with_a_predecessor_and_with_nobody_else() {
    let backend = Backend::named("hi").await;
    let other = Running::start(&plain_plan(&[backend.address], "")).await;
    let taken = other.address("in").to_string();
    let listens_at = |at: &str| -> Arc<Plan> {
        let text = plain_plan(&[backend.address], "").replace("127.0.0.1:0", at);
        Arc::new(serde_saphyr::from_str(&text).unwrap())
    };
    let is_there = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_there);
    let share_ports = SharePorts::when(move || asked.load(Relaxed));
    let mut plan = listens_at(&taken);
    let (plan_tx, plan_rx) = watch::channel(Some(Arc::clone(&plan)));
    let options = Options { workers: 1, share_ports, ..Options::default() };
    let engine = Engine::start(plan_rx, &options).unwrap();
    let handle = engine.handle();
    assert!(handle.settled(&plan).await);
    assert!(handle.status().address("in").is_some(), "beside its predecessor");
    is_there.store(false, Relaxed);
    for at in ["127.0.0.1:0", &taken] {
        plan = listens_at(at);
        plan_tx.send_replace(Some(Arc::clone(&plan)));
        assert!(handle.settled(&plan).await);
    }
    let status = handle.status();
    let error = status.listeners[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("another process listens there"), "{status:?}");
    engine.shutdown().await;
    other.stop().await;
}
