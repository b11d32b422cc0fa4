//! What was removed, and a proxy that is told to end: nothing new, and a limited time for what is open.

use std::time::Duration;

use causeway_testkit::eventually;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::client;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, one, plain, plan, route, routes};
use crate::proxy::{Engine, Proxy};

on_both!(
    connections_of_a_removed_route_go_on_for_a_while_and_then_end,
    connections_of_a_removed_listener_go_on_for_a_while_and_then_end,
    a_route_that_returns_in_time_keeps_its_connections,
    a_proxy_that_is_told_to_end_takes_nothing_new_and_lets_the_rest_finish,
    a_proxy_that_is_told_to_end_does_so_within_its_limit,
);

const DRAIN: Duration = Duration::from_secs(2);
/// How much too early a coarse timer may ring.
const TIMER: Duration = Duration::from_millis(50);

async fn connections_of_a_removed_route_go_on_for_a_while_and_then_end(engine: Engine) {
    let backend = Backend::echo("").await;
    let listener = by_name("in", [route(&["goes.test"], "c"), route(&["stays.test"], "c")]);
    let mut plan = plan([listener], [cluster("c", &[backend.address])]);
    plan.drain_timeout = DRAIN;
    let mut proxy = Proxy::start(engine, plan).await;
    let (mut goes, mut stays) = (proxy.connect("in").await, proxy.connect("in").await);
    client::say(&mut goes, &Hello::to("goes.test").bytes()).await;
    client::say(&mut stays, &Hello::to("stays.test").bytes()).await;
    let began = Instant::now();
    proxy.change(|plan| drop(routes(plan).remove(0))).await;
    client::say(&mut goes, b"still").await;
    let hello = Hello::to("goes.test").bytes();
    assert_ne!(proxy.ask("in", &hello).await, hello, "a removed name takes nothing new");
    client::say(&mut goes, b"still").await;
    assert_eq!(client::rest(&mut goes).await.0, b"");
    assert!(began.elapsed() + TIMER >= DRAIN, "{:?}", began.elapsed());
    client::say(&mut stays, b"as ever").await;
}

async fn connections_of_a_removed_listener_go_on_for_a_while_and_then_end(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = plan([plain("goes", "c"), plain("stays", "c")], [cluster("c", &[backend.address])]);
    plan.drain_timeout = DRAIN;
    let mut proxy = Proxy::start(engine, plan).await;
    let (mut goes, mut stays) = (proxy.connect("goes").await, proxy.connect("stays").await);
    client::say(&mut goes, b"before").await;
    client::say(&mut stays, b"before").await;
    let began = Instant::now();
    proxy.change(|plan| drop(plan.listeners.remove(0))).await;
    let gone = proxy.address("goes");
    eventually("the listener is gone", async || client::is_shut(gone).await).await;
    client::say(&mut goes, b"still").await;
    assert_eq!(client::rest(&mut goes).await.0, b"");
    assert!(began.elapsed() + TIMER >= DRAIN, "{:?}", began.elapsed());
    client::say(&mut stays, b"as ever").await;
}

async fn a_route_that_returns_in_time_keeps_its_connections(engine: Engine) {
    let backend = Backend::echo("").await;
    let listener = by_name("in", [route(&["a.test"], "c"), route(&["b.test"], "c")]);
    let mut plan = plan([listener], [cluster("c", &[backend.address])]);
    plan.drain_timeout = DRAIN;
    let mut proxy = Proxy::start(engine, plan).await;
    let mut open = proxy.connect("in").await;
    client::say(&mut open, &Hello::to("b.test").bytes()).await;
    let removed = Instant::now();
    let mut route = None;
    proxy.change(|plan| route = routes(plan).pop()).await;
    proxy.change(|plan| routes(plan).extend(route)).await;
    // Past the end of what the drain would have been.
    tokio::time::sleep_until(removed + DRAIN + Duration::from_secs(1)).await;
    if engine == Engine::Envoy {
        // Envoy has begun to drain the filter chain, and the one that returns is another.
        assert_eq!(client::rest(&mut open).await.0, b"");
        return;
    }
    client::say(&mut open, b"still").await;
}

async fn a_proxy_that_is_told_to_end_takes_nothing_new_and_lets_the_rest_finish(engine: Engine) {
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, one(&[backend.address])).await;
    let mut open = proxy.connect("in").await;
    client::say(&mut open, b"before").await;
    proxy.terminate();
    let address = proxy.address("in");
    eventually("no more connections", async || client::is_shut(address).await).await;
    if engine == Engine::Envoy {
        // Envoy ends at once on a signal, and everything with it: whoever wants to drain says so to its admin
        // door first.
        assert_eq!(client::rest(&mut open).await.0, b"");
        return proxy.ended().await;
    }
    client::say(&mut open, b"still").await;
    drop(open);
    proxy.ended().await;
}

async fn a_proxy_that_is_told_to_end_does_so_within_its_limit(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.drain_timeout = Duration::from_millis(500);
    let proxy = Proxy::start(engine, plan).await;
    let mut open = proxy.connect("in").await;
    client::say(&mut open, b"before").await;
    proxy.terminate();
    assert_eq!(client::rest(&mut open).await.0, b"");
    proxy.ended().await;
}
