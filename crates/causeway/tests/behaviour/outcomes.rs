//! Connections that no route matches: no name, an unknown name, no TLS at all, nothing at all.

use causeway_ir::{Action, Listener, Period, Refusal};
use tokio::io::AsyncWriteExt;

use crate::backend::Backend;
use crate::client::{self, curl, openssl};
use crate::hello::Hello;
use crate::plans::{by_name, cluster, forward, plan, route, tls};
use crate::proxy::{Engine, Proxy};

on_both!(
    unknown_names_get_the_alert_that_openssl_names,
    each_outcome_can_be_an_alert,
    each_outcome_can_be_a_close,
    each_outcome_can_be_a_cluster,
    a_plain_http_health_check_is_answered_beside_tls,
    a_client_that_says_nothing_in_time_is_let_go,
    what_begins_like_a_hello_and_is_none_is_refused,
);

/// `unrecognized_name`, fatal, whatever the version in the record.
fn is_alert(bytes: &[u8]) -> bool {
    matches!(bytes, [21, 3, _, 0, 2, 2, 112])
}

/// A proxy with the name `a.test`, whose backend is `a`, and another cluster `other`.
async fn start(engine: Engine, change: impl FnOnce(&mut Listener)) -> (Proxy, [Backend; 2]) {
    let backends = [Backend::echo("a").await, Backend::echo("o").await];
    let mut listener = by_name("in", [route(&["a.test"], "a")]);
    change(&mut listener);
    let clusters = [cluster("a", &[backends[0].address]), cluster("other", &[backends[1].address])];
    (Proxy::start(engine, plan([listener], clusters)).await, backends)
}

const PLAINTEXT: &[u8] = b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";

fn openings() -> [(&'static str, Vec<u8>); 3] {
    [
        ("unknown name", Hello::to("b.test").bytes()),
        ("no name", Hello::nameless().bytes()),
        ("plaintext", PLAINTEXT.to_vec()),
    ]
}

fn set_all(listener: &mut Listener, action: &Action) {
    let tls = tls(listener);
    tls.unknown_server_name = action.clone();
    tls.no_server_name = action.clone();
    tls.plaintext = action.clone();
}

async fn unknown_names_get_the_alert_that_openssl_names(engine: Engine) {
    let (proxy, _backends) = start(engine, |_| {}).await;
    for version in ["-tls1_2", "-tls1_3"] {
        let args = ["-servername", "b.test", version];
        let Some(said) = openssl::shake_hands(proxy.address("in"), &args).await else { return };
        assert!(!said.content && said.text.contains("unrecognized name"), "{}", said.text);
    }
}

async fn each_outcome_can_be_an_alert(engine: Engine) {
    let (proxy, backends) =
        start(engine, |listener| set_all(listener, &Action::Refuse(Refusal::Alert))).await;
    for (what, opening) in openings() {
        let answer = proxy.ask("in", &opening).await;
        assert!(is_alert(&answer), "{what}: {answer:?}");
    }
    assert!(backends.iter().all(|backend| backend.accepted() == 0));
}

async fn each_outcome_can_be_a_close(engine: Engine) {
    let (proxy, backends) =
        start(engine, |listener| set_all(listener, &Action::Refuse(Refusal::Close))).await;
    for (what, opening) in openings() {
        let mut stream = proxy.connect("in").await;
        stream.write_all(&opening).await.unwrap();
        assert_eq!(client::rest(&mut stream).await.0, b"", "{what}");
    }
    assert!(backends.iter().all(|backend| backend.accepted() == 0));
}

async fn each_outcome_can_be_a_cluster(engine: Engine) {
    let (proxy, _backends) = start(engine, |listener| set_all(listener, &forward("other"))).await;
    for (what, opening) in openings() {
        assert_eq!(proxy.ask("in", &opening).await, [b"o", &opening[..]].concat(), "{what}");
    }
    let named = Hello::to("a.test").bytes();
    assert_eq!(proxy.ask("in", &named).await, [b"a", &named[..]].concat());
}

async fn a_plain_http_health_check_is_answered_beside_tls(engine: Engine) {
    let (health, api) = (Backend::http("healthy").await, Backend::tls("api", &["api.test"]).await);
    let mut listener = by_name("in", [route(&["api.test"], "api")]);
    tls(&mut listener).plaintext = forward("health");
    let clusters = [cluster("api", &[api.address]), cluster("health", &[health.address])];
    let proxy = Proxy::start(engine, plan([listener], clusters)).await;
    let address = proxy.address("in");
    let Some(said) = curl::get(address, "http://probe.test/healthz", &[]).await else { return };
    assert_eq!(said.text.trim(), "healthy");
    assert_eq!(client::get(address, "api.test").await.unwrap(), "api");
}

async fn a_client_that_says_nothing_in_time_is_let_go(engine: Engine) {
    let (mut proxy, backends) = start(engine, |_| {}).await;
    proxy
        .change(|plan| {
            plan.limits.handshake_timeout = Period::new(std::time::Duration::from_millis(300)).unwrap();
        })
        .await;
    let mut silent = proxy.connect("in").await;
    let mut slow = proxy.connect("in").await;
    slow.write_all(&Hello::to("a.test").bytes()[..20]).await.unwrap();
    assert_eq!(client::rest(&mut silent).await.0, b"");
    assert_eq!(client::rest(&mut slow).await.0, b"");
    assert!(backends.iter().all(|backend| backend.accepted() == 0));
}

async fn what_begins_like_a_hello_and_is_none_is_refused(engine: Engine) {
    let (proxy, backends) = start(engine, |_| {}).await;
    let mut broken = Hello::to("a.test").bytes();
    // A session id that is longer than the message.
    broken[43] = 255;
    let mut stream = proxy.connect("in").await;
    stream.write_all(&broken).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = client::rest(&mut stream).await.0;
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
    assert!(backends.iter().all(|backend| backend.accepted() == 0));
}
