//! Bytes: all of them, in order, in both directions, until both sides have ended.

use std::time::Duration;

use causeway_testkit::soon;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::backend::Backend;
use crate::client::{self, End};
use crate::hello::Hello;
use crate::plans::{by_name, cluster, one, plan, route};
use crate::proxy::{Engine, Proxy};

on_both!(
    a_server_that_speaks_first_is_heard,
    a_client_that_ends_while_64_mib_are_on_their_way_gets_them_all,
    the_same_holds_behind_a_hello,
    a_client_that_ends_with_its_hello_is_answered,
    an_answer_that_begins_after_the_client_has_ended_arrives,
    a_server_that_ends_first_still_gets_everything,
    a_slow_reader_gets_everything_and_holds_up_nobody,
    a_client_that_is_gone_is_told_to_the_server,
    a_server_that_is_gone_is_told_to_the_client,
    bytes_are_passed_on_as_they_come,
);

const SIZE: usize = 64 << 20;
const BLOCK: usize = 64 << 10;

/// Bytes that differ at every place, so that a lost or doubled block shows.
fn pattern(from: usize, buffer: &mut [u8]) {
    for (i, chunk) in buffer.chunks_mut(8).enumerate() {
        let word = ((from / 8 + i) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Sends the pattern and ends.
async fn send(mut to: impl AsyncWrite + Unpin, size: usize) {
    let mut block = vec![0; BLOCK];
    for start in (0..size).step_by(BLOCK) {
        pattern(start, &mut block);
        soon("room to send", to.write_all(&block)).await.unwrap();
    }
    to.shutdown().await.unwrap();
}

/// Receives the pattern and the end after it.
async fn receive(mut from: impl AsyncRead + Unpin, size: usize) {
    let (mut got, mut wanted) = (vec![0; BLOCK], vec![0; BLOCK]);
    for start in (0..size).step_by(BLOCK) {
        soon("more bytes", from.read_exact(&mut got)).await.unwrap_or_else(|e| panic!("at {start}: {e}"));
        pattern(start, &mut wanted);
        assert!(got == wanted, "wrong bytes at {start}");
    }
    assert_eq!(soon("the end", from.read(&mut got)).await.unwrap(), 0);
}

/// Sends the pattern to a server that echoes, ends at once, and checks what comes back.
async fn echo(stream: TcpStream) {
    let (from, to) = stream.into_split();
    let sending = tokio::spawn(send(to, SIZE));
    receive(from, SIZE).await;
    sending.await.unwrap();
}

/// A proxy to a server that the test plays itself.
async fn scripted(engine: Engine) -> (Proxy, TcpListener) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (Proxy::start(engine, one(&[server.local_addr().unwrap()])).await, server)
}

async fn accept(server: &TcpListener) -> TcpStream {
    soon("a connection of the proxy", server.accept()).await.unwrap().0
}

async fn a_server_that_speaks_first_is_heard(engine: Engine) {
    let backend = Backend::echo("220 welcome\r\n").await;
    let proxy = Proxy::start(engine, one(&[backend.address])).await;
    let mut stream = proxy.connect("in").await;
    assert_eq!(client::read(&mut stream, 13).await, b"220 welcome\r\n");
    client::say(&mut stream, b"HELO\r\n").await;
}

async fn a_client_that_ends_while_64_mib_are_on_their_way_gets_them_all(engine: Engine) {
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, one(&[backend.address])).await;
    echo(proxy.connect("in").await).await;
}

async fn the_same_holds_behind_a_hello(engine: Engine) {
    let backend = Backend::echo("").await;
    let listener = by_name("in", [route(&["a.test"], "c")]);
    let proxy = Proxy::start(engine, plan([listener], [cluster("c", &[backend.address])])).await;
    let mut stream = proxy.connect("in").await;
    client::say(&mut stream, &Hello::to("a.test").bytes()).await;
    echo(stream).await;
}

async fn a_client_that_ends_with_its_hello_is_answered(engine: Engine) {
    let backend = Backend::echo("").await;
    let listener = by_name("in", [route(&["a.test"], "c")]);
    let proxy = Proxy::start(engine, plan([listener], [cluster("c", &[backend.address])])).await;
    let hello = Hello::to("a.test").bytes();
    let mut stream = proxy.connect("in").await;
    stream.write_all(&hello).await.unwrap();
    stream.shutdown().await.unwrap();
    let (answer, _) = client::rest(&mut stream).await;
    match engine {
        Engine::Native => assert_eq!(answer, hello),
        // Envoy drops a client that ends while the hello is being looked at; whether it still is, is a race.
        Engine::Envoy => assert!(answer.is_empty() || answer == hello),
    }
}

async fn an_answer_that_begins_after_the_client_has_ended_arrives(engine: Engine) {
    let (proxy, server) = scripted(engine).await;
    let mut client = proxy.connect("in").await;
    client.write_all(b"all of it, please").await.unwrap();
    client.shutdown().await.unwrap();
    let mut server = accept(&server).await;
    assert_eq!(client::read_all(&mut server).await, b"all of it, please");
    let sending = tokio::spawn(send(server, SIZE));
    receive(client, SIZE).await;
    sending.await.unwrap();
}

async fn a_server_that_ends_first_still_gets_everything(engine: Engine) {
    let (proxy, server) = scripted(engine).await;
    let mut client = proxy.connect("in").await;
    let mut server = accept(&server).await;
    server.write_all(b"go on").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(client::read_all(&mut client).await, b"go on");
    let sending = tokio::spawn(send(client, SIZE));
    receive(server, SIZE).await;
    sending.await.unwrap();
}

async fn a_slow_reader_gets_everything_and_holds_up_nobody(engine: Engine) {
    const HELD_UP: usize = 16 << 20;
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, one(&[backend.address])).await;
    let (from, to) = proxy.connect("in").await.into_split();
    let sending = tokio::spawn(send(to, HELD_UP));
    // Nobody reads yet, so all that is between the two fills up.
    for _ in 0..20 {
        assert_eq!(proxy.ask("in", b"quick").await, b"quick");
    }
    receive(from, HELD_UP).await;
    sending.await.unwrap();
}

fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
}

async fn a_client_that_is_gone_is_told_to_the_server(engine: Engine) {
    let (proxy, server) = scripted(engine).await;
    let mut client = proxy.connect("in").await;
    client.write_all(b"hello").await.unwrap();
    let mut server = accept(&server).await;
    assert_eq!(client::read(&mut server, 5).await, b"hello");
    reset(client);
    let (bytes, end) = client::rest(&mut server).await;
    assert_eq!(bytes, b"");
    if engine == Engine::Native {
        assert_eq!(end, End::Reset);
    }
}

async fn a_server_that_is_gone_is_told_to_the_client(engine: Engine) {
    let (proxy, server) = scripted(engine).await;
    let mut client = proxy.connect("in").await;
    client.write_all(b"hello").await.unwrap();
    let mut server = accept(&server).await;
    assert_eq!(client::read(&mut server, 5).await, b"hello");
    server.write_all(b"goodbye").await.unwrap();
    assert_eq!(client::read(&mut client, 7).await, b"goodbye");
    reset(server);
    let (bytes, end) = client::rest(&mut client).await;
    assert_eq!(bytes, b"");
    if engine == Engine::Native {
        assert_eq!(end, End::Reset);
    }
}

async fn bytes_are_passed_on_as_they_come(engine: Engine) {
    let backend = Backend::echo("").await;
    let proxy = Proxy::start(engine, one(&[backend.address])).await;
    let mut stream = proxy.connect("in").await;
    let began = tokio::time::Instant::now();
    for i in 0..200u8 {
        client::say(&mut stream, &[i]).await;
    }
    // With delayed acknowledgements in the way each round would take 40 ms.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
