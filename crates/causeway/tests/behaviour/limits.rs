//! How many connections there may be: by route, by cluster, by client address, in all. Beyond that they are refused at once, and what is
//! open is not harmed.

use std::time::Duration;

use causeway_ir::{AcceptProxyProtocol, Limit, ProxyVersion};
use causeway_testkit::eventually;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::client;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, one, plain, plan, route};
use crate::proxy::{Engine, Proxy};

on_both!(
    a_route_has_its_limit,
    a_cluster_has_its_limit,
    the_proxy_has_its_limit,
    new_connections_have_their_rate,
);

const LIMIT: u32 = 3;

/// Opens as many as may be, expects the next to be refused, and the place of one that ends to be given again.
async fn holds_its_limit(proxy: &Proxy, listener: &str, opening: &[u8]) {
    let mut open = Vec::new();
    for _ in 0..LIMIT {
        open.push(admitted(proxy, listener, opening).await.expect("there is room"));
    }
    for _ in 0..3 {
        assert!(admitted(proxy, listener, opening).await.is_none(), "there is no room");
    }
    for stream in &mut open {
        client::say(stream, b"as ever").await;
    }
    drop(open.pop());
    eventually("there is room again", async || match admitted(proxy, listener, opening).await {
        Some(stream) => {
            open.push(stream);
            true
        }
        None => false,
    })
    .await;
    assert!(admitted(proxy, listener, opening).await.is_none(), "there is no room");
}

/// A connection that reached its backend, which echoes.
async fn admitted(proxy: &Proxy, listener: &str, opening: &[u8]) -> Option<TcpStream> {
    client::greeted(proxy.address(listener), opening).await
}

async fn a_route_has_its_limit(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut routes = [route(&["few.test"], "c"), route(&["many.test"], "c")];
    routes[0].connection_limit = Limit::new(LIMIT);
    let plan = plan([by_name("in", routes)], [cluster("c", &[backend.address])]);
    let proxy = Proxy::start(engine, plan).await;
    let many = Hello::to("many.test").bytes();
    let mut others = Vec::new();
    for _ in 0..=LIMIT {
        others.push(admitted(&proxy, "in", &many).await.expect("no limit here"));
    }
    holds_its_limit(&proxy, "in", &Hello::to("few.test").bytes()).await;
    assert_eq!(proxy.ask("in", &many).await, many);
}

async fn a_cluster_has_its_limit(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut few = cluster("few", &[backend.address]);
    few.connection_limit = Limit::new(LIMIT);
    let listeners = [plain("in", "few"), plain("free", "many")];
    let proxy = Proxy::start(engine, plan(listeners, [few, cluster("many", &[backend.address])])).await;
    holds_its_limit(&proxy, "in", b"hello").await;
    assert_eq!(proxy.ask("free", b"hello").await, b"hello");
}

async fn the_proxy_has_its_limit(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.limits.connections = Limit::new(LIMIT);
    let proxy = Proxy::start(engine, plan).await;
    holds_its_limit(&proxy, "in", b"hello").await;
}

/// Envoy can't count by address, and says so in its place (`xds`, problems).
#[tokio::test]
async fn a_client_address_has_its_limit() {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.limits.connections_per_source = Limit::new(LIMIT);
    let proxy = Proxy::start(Engine::Native, plan).await;
    holds_its_limit(&proxy, "in", b"hello").await;
}

/// It is the client that counts, not the proxy that speaks for it.
#[tokio::test]
async fn a_client_behind_a_proxy_has_its_own_limit() {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.limits.connections_per_source = Limit::new(LIMIT);
    plan.listeners[0].accept_proxy_protocol = Some(AcceptProxyProtocol::default());
    // The backend echoes the header too, so that all of the opening comes back.
    plan.clusters[0].send_proxy_protocol = Some(ProxyVersion::V1);
    let proxy = Proxy::start(Engine::Native, plan).await;
    let from = |client: &str| format!("PROXY TCP4 {client} 192.0.2.9 1000 443\r\nhello").into_bytes();
    let _other = admitted(&proxy, "in", &from("192.0.2.2")).await.expect("there is room");
    holds_its_limit(&proxy, "in", &from("192.0.2.1")).await;
}

async fn new_connections_have_their_rate(engine: Engine) {
    const RATE: u32 = 5;
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.limits.new_connections_per_second = Limit::new(RATE);
    let proxy = Proxy::start(engine, plan).await;
    let began = Instant::now();
    let mut count = 0;
    // The first second's worth, and then one now and then: enough attempts to take three seconds.
    eventually("four seconds' worth are admitted", async || {
        count += u32::from(admitted(&proxy, "in", b"hello").await.is_some());
        count >= RATE * 4
    })
    .await;
    assert!(began.elapsed() >= Duration::from_millis(2900), "{:?}", began.elapsed());
}
