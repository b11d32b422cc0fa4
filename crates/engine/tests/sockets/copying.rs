//! Bytes: all of them, in order, until both sides have ended.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Backend, PATIENCE, Running, eventually, hello, plain_plan, read_all, tls_plan};

const SIZE: usize = 64 << 20;

/// Bytes that differ at every place, so that a lost or doubled block shows.
fn pattern(from: usize, buffer: &mut [u8]) {
    for (i, chunk) in buffer.chunks_mut(8).enumerate() {
        let word = ((from / 8 + i) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Sends the pattern, ends at once, and checks what is echoed until the end.
async fn echo(stream: TcpStream, skip: usize) {
    let (mut from, mut to) = stream.into_split();
    let sending = tokio::spawn(async move {
        let mut buffer = vec![0; 128 << 10];
        for start in (0..SIZE).step_by(buffer.len()) {
            pattern(start, &mut buffer);
            to.write_all(&buffer).await.unwrap();
        }
        to.shutdown().await.unwrap();
        to
    });
    let mut skipped = vec![0; skip];
    from.read_exact(&mut skipped).await.unwrap();
    let (mut got, mut wanted) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    for start in (0..SIZE).step_by(got.len()) {
        from.read_exact(&mut got).await.unwrap_or_else(|e| panic!("at {start}: {e}"));
        pattern(start, &mut wanted);
        assert!(got == wanted, "wrong bytes at {start}");
    }
    assert_eq!(from.read(&mut got).await.unwrap(), 0);
    sending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_close_loses_nothing_of_64_mib() {
    let backend = Backend::named("x").await;
    let running = Running::start(&plain_plan(&[backend.address], "")).await;
    let stream = running.connect("in").await;
    tokio::time::timeout(Duration::from_mins(2), echo(stream, 1)).await.unwrap();
    running.closed("finished", 1).await;
    let bytes = SIZE as u64;
    assert_eq!(running.metric(&["causeway_bytes_total", "direction=\"up\""]), bytes);
    assert_eq!(running.metric(&["causeway_bytes_total", "direction=\"down\""]), bytes + 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_and_bulk_behind_it_arrive_whole() {
    let backend = Backend::named("y").await;
    let running = Running::start(&tls_plan("a.test", &[backend.address], "")).await;
    let mut stream = running.connect("in").await;
    let hello = hello("a.test");
    stream.write_all(&hello).await.unwrap();
    tokio::time::timeout(Duration::from_mins(2), echo(stream, 1 + hello.len())).await.unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_everything_and_holds_up_nobody() {
    let backend = Backend::named("").await;
    let running = Running::start(&plain_plan(&[backend.address], "")).await;
    let slow = running.connect("in").await;
    let (mut from, mut to) = slow.into_split();
    let sent = tokio::spawn(async move {
        let mut block = vec![0; 1 << 20];
        for i in 0..16 {
            pattern(i << 20, &mut block);
            to.write_all(&block).await.unwrap();
        }
        to.shutdown().await.unwrap();
    });
    // Nobody reads: the sockets between fill up. Others go on all the same.
    eventually("bytes are on their way", || running.metric(&["causeway_bytes_total"]) > 100_000).await;
    for _ in 0..20 {
        assert_eq!(running.ask("in", b"quick").await, b"quick");
    }
    let mut all = Vec::new();
    tokio::time::timeout(PATIENCE, from.read_to_end(&mut all)).await.unwrap().unwrap();
    let mut wanted = vec![0; 16 << 20];
    pattern(0, &mut wanted);
    assert!(all == wanted, "{} of {}", all.len(), wanted.len());
    sent.await.unwrap();
    running.stop().await;
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_of_the_client_reaches_the_endpoint() {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&plain_plan(&[endpoint.local_addr().unwrap()], "")).await;
    let mut client = running.connect("in").await;
    client.write_all(b"hello").await.unwrap();
    let (mut server, _) = endpoint.accept().await.unwrap();
    let mut buffer = [0; 16];
    assert_eq!(server.read(&mut buffer).await.unwrap(), 5);
    reset(client);
    let error = tokio::time::timeout(PATIENCE, server.read(&mut buffer)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    running.closed("clientReset", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_of_the_endpoint_reaches_the_client_after_its_bytes() {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&plain_plan(&[endpoint.local_addr().unwrap()], "")).await;
    let mut client = running.connect("in").await;
    let (mut server, _) = endpoint.accept().await.unwrap();
    server.write_all(b"goodbye").await.unwrap();
    eventually("the bytes are through", || running.metric(&["causeway_bytes_total", "down"]) == 7).await;
    reset(server);
    running.closed("endpointReset", 1).await;
    let mut buffer = [0; 7];
    client.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"goodbye");
    let error = client.read(&mut buffer).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_survives_a_server_that_closes_on_unread_input() {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&plain_plan(&[endpoint.local_addr().unwrap()], "")).await;
    let mut client = running.connect("in").await;
    client.write_all(&[1; 1000]).await.unwrap();
    let (mut server, _) = endpoint.accept().await.unwrap();
    server.peek(&mut [0]).await.unwrap();
    server.write_all(b"413").await.unwrap();
    drop(server);
    let mut answer = [0; 3];
    tokio::time::timeout(PATIENCE, client.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"413");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_first_still_hears_the_client() {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&plain_plan(&[endpoint.local_addr().unwrap()], "")).await;
    let mut client = running.connect("in").await;
    let (mut server, _) = endpoint.accept().await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(read_all(&mut client).await, b"");
    client.write_all(b"still here").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_all(&mut server).await, b"still here");
    running.closed("finished", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_ends_a_connection_that_is_half_closed() {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&plain_plan(&[endpoint.local_addr().unwrap()], "")).await;
    let mut client = running.connect("in").await;
    drop(endpoint.accept().await.unwrap());
    assert_eq!(read_all(&mut client).await, b"");
    client.write_all(b"to nobody").await.unwrap();
    running.closed("endpointReset", 1).await;
    running.stop().await;
}
