//! IPv4 and IPv6, on either side.

use crate::backend::Backend;
use crate::plans::one;
use crate::proxy::{Engine, Proxy};

on_both!(
    ipv6_listens_and_is_connected_to,
    ipv4_and_ipv6_are_joined_either_way,
    another_address_of_the_host_is_another_listener,
);

/// Whether this host has IPv6 at all. Where CI runs, it has to.
fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !has {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "this host has no IPv6");
        println!("skipped: this host has no IPv6");
    }
    has
}

async fn passes(engine: Engine, listen: &str, endpoint: &str) {
    let backend = Backend::echo_at(endpoint, "a").await;
    let mut plan = one(&[backend.address]);
    plan.listeners[0].bind = listen.parse().unwrap();
    let proxy = Proxy::start(engine, plan).await;
    assert_eq!(proxy.ask("in", b"hello").await, b"ahello");
}

async fn ipv6_listens_and_is_connected_to(engine: Engine) {
    if has_ipv6() {
        passes(engine, "[::1]:0", "[::1]:0").await;
    }
}

async fn ipv4_and_ipv6_are_joined_either_way(engine: Engine) {
    if has_ipv6() {
        passes(engine, "[::1]:0", "127.0.0.1:0").await;
        passes(engine, "127.0.0.1:0", "[::1]:0").await;
    }
}

async fn another_address_of_the_host_is_another_listener(engine: Engine) {
    let (a, b) = (Backend::echo("a").await, Backend::echo("b").await);
    let mut plan = one(&[a.address]);
    let mut second = crate::plans::plain("second", "d");
    second.bind = "127.0.0.2:0".parse().unwrap();
    plan.listeners.push(second);
    plan.clusters.push(crate::plans::cluster("d", &[b.address]));
    let proxy = Proxy::start(engine, plan).await;
    assert_eq!(proxy.ask("in", b"hello").await, b"ahello");
    assert_eq!(proxy.ask("second", b"hello").await, b"bhello");
}
