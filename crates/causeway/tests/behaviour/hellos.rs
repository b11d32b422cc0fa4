//! ClientHellos of every shape: the proxy finds the name, and the backend gets every byte as it was sent.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::backend::Backend;
use crate::client;
use crate::hello::Hello;
use crate::plans::{by_name, cluster, plan, route};
use crate::proxy::{Engine, Proxy};

on_both!(
    every_version_of_tls_is_routed,
    greased_hellos_are_routed,
    encrypted_hellos_are_routed_by_their_outer_name,
    a_hello_in_segments_of_one_byte_is_routed,
    a_hello_split_over_many_records_is_routed,
    post_quantum_hellos_are_larger_than_a_segment_and_routed,
    large_hellos_are_routed,
    hellos_up_to_64_kib_are_routed,
    what_follows_the_hello_at_once_is_not_lost,
);

async fn start(engine: Engine) -> (Proxy, Backend) {
    let backend = Backend::echo("a").await;
    let listener = by_name("in", [route(&["a.test"], "a")]);
    (Proxy::start(engine, plan([listener], [cluster("a", &[backend.address])])).await, backend)
}

/// Sends a hello in segments of these sizes, in turn, and expects the backend to echo it.
async fn echoed(proxy: &Proxy, hello: &[u8], sizes: &[usize]) {
    let mut stream = proxy.connect("in").await;
    let (mut left, mut sizes) = (hello, sizes.iter().cycle());
    // Slow enough for segments to arrive one by one.
    let mut beat = tokio::time::interval(Duration::from_micros(200));
    while !left.is_empty() {
        beat.tick().await;
        let (segment, after) = left.split_at((*sizes.next().unwrap()).min(left.len()));
        stream.write_all(segment).await.unwrap();
        left = after;
    }
    let wanted = [b"a", hello].concat();
    let got = client::read(&mut stream, wanted.len()).await;
    assert!(got == wanted, "the backend got other bytes");
}

const WHOLE: &[usize] = &[usize::MAX];

async fn every_version_of_tls_is_routed(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    for version in [0x0301, 0x0302, 0x0303] {
        echoed(&proxy, &Hello::to("a.test").version(version).bytes(), WHOLE).await;
    }
    echoed(&proxy, &Hello::to("a.test").tls13().bytes(), WHOLE).await;
}

async fn greased_hellos_are_routed(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    for hello in [Hello::to("a.test").grease(), Hello::nameless().tls13().grease().with_name("a.test")] {
        echoed(&proxy, &hello.bytes(), WHOLE).await;
    }
}

async fn encrypted_hellos_are_routed_by_their_outer_name(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    echoed(&proxy, &Hello::to("a.test").tls13().encrypted_inner().bytes(), WHOLE).await;
}

async fn a_hello_in_segments_of_one_byte_is_routed(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    echoed(&proxy, &Hello::to("a.test").tls13().bytes(), &[1]).await;
    echoed(&proxy, &Hello::to("a.test").in_records(1), &[1]).await;
}

async fn a_hello_split_over_many_records_is_routed(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    let hello = Hello::to("a.test").tls13().grease();
    for record in [1, 2, 3, 5, 50, 100] {
        echoed(&proxy, &hello.in_records(record), WHOLE).await;
        echoed(&proxy, &hello.in_records(record), &[7, 1, 30]).await;
    }
}

async fn post_quantum_hellos_are_larger_than_a_segment_and_routed(engine: Engine) {
    // What an Ethernet frame has room for.
    const SEGMENT: usize = 1448;
    let (proxy, _backend) = start(engine).await;
    let hello = client::first_flight(client::post_quantum(), "a.test");
    assert!(hello.len() > SEGMENT, "{}", hello.len());
    echoed(&proxy, &hello, &[SEGMENT]).await;
    echoed(&proxy, &hello, WHOLE).await;
}

async fn large_hellos_are_routed(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    for size in [4 << 10, 15 << 10] {
        echoed(&proxy, &Hello::to("a.test").padded(size).bytes(), &[1448]).await;
        // The name comes last.
        echoed(&proxy, &Hello::nameless().padded(size).with_name("a.test").bytes(), &[1448]).await;
    }
}

async fn hellos_up_to_64_kib_are_routed(engine: Engine) {
    let (proxy, backend) = start(engine).await;
    let hello = Hello::nameless().padded(60 << 10).with_name("a.test").bytes();
    if engine == Engine::Envoy {
        // Envoy gives up at 16 KiB.
        assert!(client::greeted(proxy.address("in"), &hello).await.is_none());
        assert_eq!(backend.accepted(), 0);
        return;
    }
    echoed(&proxy, &hello, &[1448 * 4]).await;
}

async fn what_follows_the_hello_at_once_is_not_lost(engine: Engine) {
    let (proxy, _backend) = start(engine).await;
    let early_data: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    let sent = [Hello::to("a.test").tls13().bytes(), early_data].concat();
    let answer = proxy.ask("in", &sent).await;
    assert!(answer == [b"a", &sent[..]].concat(), "{} of {} bytes", answer.len(), sent.len() + 1);
}
