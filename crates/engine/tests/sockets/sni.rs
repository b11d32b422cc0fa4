//! Who gets which connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Backend, PATIENCE, Running, eventually, hello, hello_without_name, large_hello, read_all, tls_routes,
};

const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

async fn start(outcomes: &str, limits: &str) -> (Running, [Backend; 3]) {
    let backends = [Backend::named("one").await, Backend::named("two").await, Backend::named("rest").await];
    let [one, two, rest] = backends.each_ref().map(|b| b.address);
    let running = Running::start(&format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    tls:\n{outcomes}\n      routes:\n      \
         - {{name: one, serverNames: [one.test, Alternate.Test], action: {{forward: one}}}}\n      \
         - {{name: two, serverNames: ['*.two.test'], action: {{forward: two}}}}\n\
         clusters:\n- {{name: one, endpoints: [{{address: '{one}'}}]}}\n\
         - {{name: two, endpoints: [{{address: '{two}'}}]}}\n\
         - {{name: rest, endpoints: [{{address: '{rest}'}}]}}\n{limits}\n"
    ))
    .await;
    (running, backends)
}

fn answer(name: &str, bytes: &[u8]) -> Vec<u8> {
    [name.as_bytes(), bytes].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_exact_alternate_and_wildcard_names_and_passes_the_hello_on() {
    let (running, _backends) = start("", "").await;
    for (name, backend) in [
        ("one.test", "one"),
        ("ONE.test", "one"),
        ("alternate.test", "one"),
        ("a.two.test", "two"),
        ("a.b.two.test", "two"),
    ] {
        let hello = hello(name);
        assert_eq!(running.ask("in", &hello).await, answer(backend, &hello), "{name}");
    }
    running.closed("finished", 5).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_unknown_names_with_the_alert_and_plaintext_by_closing() {
    let (running, _backends) = start("", "").await;
    assert_eq!(running.ask("in", &hello("two.test")).await, ALERT);
    assert_eq!(running.ask("in", &hello("other.test")).await, ALERT);
    assert_eq!(running.ask("in", &hello_without_name()).await, ALERT);
    assert_eq!(running.ask("in", b"GET / HTTP/1.1\r\n\r\n").await, b"");
    running.closed("unknownServerName", 2).await;
    running.closed("noServerName", 1).await;
    running.closed("plaintext", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_the_rest_to_the_named_defaults() {
    let outcomes = "      noServerName: {forward: rest}\n      unknownServerName: {refuse: close}\n      plaintext: {forward: two}";
    let (running, _backends) = start(outcomes, "").await;
    let nameless = hello_without_name();
    assert_eq!(running.ask("in", &nameless).await, answer("rest", &nameless));
    assert_eq!(running.ask("in", b"GET / HTTP/1.1\r\n\r\n").await, answer("two", b"GET / HTTP/1.1\r\n\r\n"));
    assert_eq!(running.ask("in", &hello("other.test")).await, b"");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_a_large_hello_byte_by_byte() {
    let (running, _backends) = start("", "").await;
    let hello = large_hello("one.test");
    assert!(hello.len() > 1200, "{}", hello.len());
    let mut stream = running.connect("in").await;
    stream.set_nodelay(true).unwrap();
    for byte in &hello {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.shutdown().await.unwrap();
    assert_eq!(read_all(&mut stream).await, answer("one", &hello));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_that_never_ends_times_out() {
    let (running, _backends) = start("", "limits: {handshakeTimeout: 200ms}").await;
    let hello = hello("one.test");
    let mut slow = running.connect("in").await;
    slow.write_all(&hello[..20]).await.unwrap();
    let mut silent = running.connect("in").await;
    assert_eq!(read_all(&mut slow).await, b"");
    assert_eq!(read_all(&mut silent).await, b"");
    running.closed("handshakeTimeout", 2).await;
    assert_eq!(running.ask("in", &hello).await, answer("one", &hello));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn junk_and_early_ends_are_counted() {
    let (running, _backends) = start("", "").await;
    running.ask("in", &hello("one.test")[..30]).await;
    running.closed("clientLeft", 1).await;
    // A handshake record that holds no ClientHello.
    running.ask("in", &[22, 3, 1, 0, 4, 99, 0, 0, 0]).await;
    running.closed("invalidHello", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_port_lets_the_server_speak_first() {
    let backend = Backend::named("welcome").await;
    let running = Running::start(&crate::support::plain_plan(&[backend.address], "")).await;
    let mut stream = running.connect("in").await;
    let mut greeting = [0; 7];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut greeting)).await.unwrap().unwrap();
    assert_eq!(&greeting, b"welcome");
    drop(stream);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_closed() {
    let backend = Backend::named("hi").await;
    let running =
        Running::start(&crate::support::plain_plan(&[backend.address], "  idleTimeout: 100ms\n")).await;
    let mut stream = running.connect("in").await;
    let began = tokio::time::Instant::now();
    assert_eq!(read_all(&mut stream).await, b"hi");
    assert!(began.elapsed() >= Duration::from_millis(100));
    running.closed("idleTimeout", 1).await;
    running.stop().await;
}

/// A connection that has said half of a hello, of a route that has served one before.
async fn half_said() -> (Running, [Backend; 3], tokio::net::TcpStream, Vec<u8>) {
    let (running, backends) = start("", "drainTimeout: 100ms").await;
    let hello = hello("one.test");
    assert_eq!(running.ask("in", &hello).await, answer("one", &hello));
    running.closed("finished", 1).await;
    let mut slow = running.connect("in").await;
    slow.write_all(&hello[..20]).await.unwrap();
    eventually("it is being read", || running.metric(&["causeway_connections_active"]) == 1).await;
    (running, backends, slow, hello)
}

/// Waits until the time of the route `one` to drain is over: what it counted is shown no longer.
async fn route_one_has_ended(running: &Running) {
    let counted = || running.metric(&["causeway_connections_closed_total", "route=\"one\""]);
    eventually("the route has ended", || counted() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_hello_is_matched_with_the_plan_of_its_last_byte() {
    let (mut running, _backends, mut slow, hello) = half_said().await;
    // The name moves to another route, and the time of the first one to drain passes.
    running
        .change(|plan| {
            let moved = tls_routes(plan).remove(0).server_names;
            tls_routes(plan)[0].server_names.extend(moved);
        })
        .await;
    route_one_has_ended(&running).await;
    slow.write_all(&hello[20..]).await.unwrap();
    slow.shutdown().await.unwrap();
    assert_eq!(read_all(&mut slow).await, answer("two", &hello));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_hello_finds_no_route_that_has_ended() {
    let (mut running, _backends, mut slow, hello) = half_said().await;
    running.change(|plan| plan.listeners.clear()).await;
    route_one_has_ended(&running).await;
    slow.write_all(&hello[20..]).await.unwrap();
    slow.shutdown().await.unwrap();
    assert_eq!(read_all(&mut slow).await, b"");
    running.closed("drained", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_share_by_weight_and_a_route_may_refuse() {
    let (mut running, _backends) = start("", "").await;
    let targets: causeway_ir::Targets =
        serde_saphyr::from_str("[{cluster: one}, {cluster: two, weight: 3}, {cluster: rest, weight: 0}]")
            .unwrap();
    running.change(|plan| tls_routes(plan)[0].action = causeway_ir::Action::Forward(targets)).await;
    let hello = hello("one.test");
    let mut answers = [0, 0];
    for _ in 0..40 {
        let heard = running.ask("in", &hello).await;
        let from = ["one", "two"].iter().position(|name| heard == answer(name, &hello)).unwrap();
        answers[from] += 1;
    }
    assert!((8..=12).contains(&answers[0]), "{answers:?}");
    let refuse = causeway_ir::Action::Refuse(causeway_ir::Refusal::Alert);
    running.change(|plan| tls_routes(plan)[0].action = refuse).await;
    assert_eq!(running.ask("in", &hello).await, ALERT);
    running.closed("refused", 1).await;
    running.stop().await;
}

/// A hello of this many bytes that asks for a name, in records as large as they may be. An extension of this kind fills it.
fn padded_hello(name: &str, size: usize, kind: u8) -> Vec<u8> {
    let sized = |body: Vec<u8>| [(body.len() as u16).to_be_bytes().to_vec(), body].concat();
    let names = sized(sized([vec![0], sized(name.as_bytes().to_vec())].concat()));
    let fixed = [vec![3, 3], vec![7; 32], vec![0], vec![0, 2, 0x13, 1], vec![1, 0]].concat();
    let used = 4 + fixed.len() + 2 + 2 + names.len() + 2 + 2;
    let padding = if kind == ALPN { protocols(size - used) } else { vec![0; size - used] };
    let extensions = sized([vec![0, 0], names, vec![0, kind], sized(padding)].concat());
    let body = [fixed, extensions].concat();
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    assert_eq!(message.len(), size);
    message.chunks(1 << 14).flat_map(|piece| [vec![22, 3, 1], sized(piece.to_vec())].concat()).collect()
}

const PADDING: u8 = 21;
const ALPN: u8 = 16;

/// A list of this many bytes, of names as long as they may be.
fn protocols(size: usize) -> Vec<u8> {
    let mut list = ((size - 2) as u16).to_be_bytes().to_vec();
    while list.len() < size {
        // None may be empty.
        let left = size - list.len();
        let length = if left == 257 { 100 } else { left.min(256) - 1 };
        list.push(length as u8);
        list.extend(vec![b'a'; length]);
    }
    list
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hellos_of_up_to_64_kib_pass_in_any_pieces() {
    let (running, _backends) = start("", "").await;
    let sizes = [20_000, 32 << 10, 33_000, 40_000, 50_000, 60_000, 64 << 10];
    for (size, kind) in sizes.into_iter().flat_map(|size| [(size, PADDING), (size, ALPN)]) {
        let hello = padded_hello("one.test", size, kind);
        assert_eq!(running.ask("in", &hello).await, answer("one", &hello), "{size} at once");
        let mut stream = running.connect("in").await;
        for piece in hello.chunks(9_000) {
            stream.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.shutdown().await.unwrap();
        assert_eq!(read_all(&mut stream).await, answer("one", &hello), "{size} in pieces");
    }
    assert_eq!(running.metric(&["causeway_connections_closed_total", "invalidHello"]), 0);
    running.stop().await;
}
