//! Who may connect, and whose PROXY protocol headers are believed.

use causeway_ir::{AcceptProxyProtocol, Plan};
use causeway_testkit::soon;

use crate::backend::Backend;
use crate::client;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, one, plan, route};
use crate::proxy::{Engine, Proxy};

on_both!(
    only_allowed_sources_connect,
    only_allowed_sources_connect_behind_a_hello,
    the_client_that_a_header_names_is_the_source,
    headers_are_believed_from_trusted_peers_only,
    allowed_sources_change_under_open_connections,
);

const HERE: &str = "127.0.0.0/8";
const ELSEWHERE: &str = "10.0.0.0/8";

fn allow(plan: &mut Plan, network: &str) {
    plan.listeners[0].allowed_sources = vec![network.parse().unwrap()];
}

/// What comes back from a listener that echoes; nothing if the connection is refused, in whatever way.
async fn answer(proxy: &Proxy, sent: &[u8]) -> Vec<u8> {
    soon("an answer", client::exchange(proxy.address("in"), sent)).await.unwrap_or_default()
}

async fn only_allowed_sources_connect(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    allow(&mut plan, ELSEWHERE);
    let mut proxy = Proxy::start(engine, plan).await;
    assert_eq!(answer(&proxy, b"hello").await, b"");
    assert_eq!(backend.accepted(), 0);
    proxy.change(|plan| plan.listeners[0].allowed_sources.push(HERE.parse().unwrap())).await;
    assert_eq!(answer(&proxy, b"hello").await, b"hello");
}

async fn only_allowed_sources_connect_behind_a_hello(engine: Engine) {
    let backend = Backend::echo("").await;
    let listener = by_name("in", [route(&["a.test"], "c")]);
    let mut plan = plan([listener], [cluster("c", &[backend.address])]);
    allow(&mut plan, ELSEWHERE);
    let mut proxy = Proxy::start(engine, plan).await;
    let hello = Hello::to("a.test").bytes();
    assert_eq!(answer(&proxy, &hello).await, b"");
    assert_eq!(backend.accepted(), 0);
    proxy.change(|plan| allow(plan, HERE)).await;
    assert_eq!(proxy.ask("in", &hello).await, hello);
}

fn header(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 198.51.100.1 4711 443\r\nhello").into_bytes()
}

async fn the_client_that_a_header_names_is_the_source(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    plan.listeners[0].accept_proxy_protocol = Some(AcceptProxyProtocol::default());
    allow(&mut plan, "192.0.2.0/24");
    let proxy = Proxy::start(engine, plan).await;
    assert_eq!(answer(&proxy, &header("192.0.2.7")).await, b"hello");
    assert_eq!(answer(&proxy, &header("192.0.3.7")).await, b"");
    assert_eq!(backend.accepted(), 1);
}

async fn headers_are_believed_from_trusted_peers_only(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    let from = |network: &str| Some(AcceptProxyProtocol { from: vec![network.parse().unwrap()] });
    plan.listeners[0].accept_proxy_protocol = from(ELSEWHERE);
    let mut proxy = Proxy::start(engine, plan).await;
    assert_eq!(answer(&proxy, &header("192.0.2.7")).await, b"");
    assert_eq!(backend.accepted(), 0);
    proxy.change(|plan| plan.listeners[0].accept_proxy_protocol = from(HERE)).await;
    assert_eq!(answer(&proxy, &header("192.0.2.7")).await, b"hello");
}

async fn allowed_sources_change_under_open_connections(engine: Engine) {
    let backend = Backend::echo("").await;
    let mut plan = one(&[backend.address]);
    allow(&mut plan, HERE);
    let mut proxy = Proxy::start(engine, plan).await;
    let mut open = proxy.connect("in").await;
    client::say(&mut open, b"before").await;
    proxy.change(|plan| allow(plan, "127.0.0.0/9")).await;
    client::say(&mut open, b"after").await;
    assert_eq!(answer(&proxy, b"hello").await, b"hello");
}
