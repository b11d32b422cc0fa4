//! Endpoints that speak HTTP/2.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use h2::server::Builder;
use http::{HeaderMap, HeaderValue, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Barrier;

use super::backend::{Client, status};
use super::streams::{
    Frame, GOAWAY, HEADERS, PREFACE, SETTINGS, StreamBackend, StreamClient, answer, echo, frame, get, next,
    post, push, read, soon, websocket,
};
use crate::support::{Running, eventually};

/// Everything to one cluster of HTTP/2, with more lines for the route and the plan.
fn plan(route: &str, clusters: &[(&str, SocketAddr)], more: &str) -> String {
    let mut text = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    http:\n      routes:\n      - {{name: all, {route} action: {{forward: c}}}}\nclusters:\n"
    );
    for (name, address) in clusters {
        writeln!(text, "- {{name: {name}, httpVersion: '2', endpoints: [{{address: '{address}'}}]}}")
            .unwrap();
    }
    text + more
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_trailers_pass_from_stream_to_stream() {
    let backend = StreamBackend::echoing().await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    let mut request = post("a.test", "/pkg.Service/Call?x=1");
    request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
    request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let (coming, mut stream) = client.send(request, false).await.unwrap();
    push(&mut stream, Bytes::from_static(b"message"), false).await.unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("5"));
    stream.send_trailers(trailers).unwrap();
    let heard = answer(coming).await.unwrap();
    assert_eq!((heard.status, heard.body.as_str()), (200, "message"));
    assert_eq!(
        (&heard.trailers["grpc-status"], &heard.trailers["x-checksum"]),
        (&HeaderValue::from_static("0"), &HeaderValue::from_static("5"))
    );
    let asked = &backend.asked()[0];
    assert_eq!(asked.uri.to_string(), "http://a.test/pkg.Service/Call?x=1");
    assert_eq!(
        (&asked.headers["te"], &asked.headers["x-forwarded-for"]),
        (&HeaderValue::from_static("trailers"), &HeaderValue::from_static("127.0.0.1"))
    );
    assert!(asked.headers.get("host").is_none() && asked.headers.get("transfer-encoding").is_none());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_of_a_call_talk_at_the_same_time() {
    let backend = StreamBackend::echoing().await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    let (coming, mut stream) = client.send(post("a.test", "/"), false).await.unwrap();
    let mut body = soon(coming).await.unwrap().into_body();
    for i in 0..50 {
        push(&mut stream, Bytes::from(format!("message {i}")), false).await.unwrap();
        assert_eq!(next(&mut body).await, format!("message {i}"));
    }
    stream.send_data(Bytes::new(), true).unwrap();
    let (rest, trailers) = read(&mut body).await.unwrap();
    assert_eq!((rest.len(), trailers.len()), (0, 1));
    // Much at once, too.
    let large = "x".repeat(2_000_000);
    let (coming, mut stream) = client.send(post("a.test", "/"), false).await.unwrap();
    let sending = large.clone();
    let sent = tokio::spawn(async move { push(&mut stream, sending.into(), true).await });
    assert_eq!(answer(coming).await.unwrap().body.len(), large.len());
    sent.await.unwrap().unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_http_1_reach_endpoints_of_http_2() {
    let backend = StreamBackend::echoing().await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let mut client = Client::connect(&running).await;
    let (head, body) =
        client.ask("POST /a%3Cb HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!((status(&head), body.as_str()), (200, "hello"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("transfer-encoding: chunked"), "{head}");
    let (_, body) = client.ask("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n").await;
    assert_eq!(body, "abc");
    // Who takes trailers gets them.
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n").await;
    let all = client.rest().await;
    assert!(all.ends_with("0\r\ngrpc-status: 0\r\n\r\n"), "{all}");
    let asked = backend.asked();
    assert_eq!(asked[0].headers["content-length"], "5");
    assert_eq!(asked[2].headers["te"], "trailers");
    assert_eq!(backend.connections(), 1, "one connection for all");
    running.stop().await;
}

/// Each gets what it speaks from a server that speaks both on one port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_on_in_the_version_in_which_they_came() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut first = [0; 3];
                while socket.peek(&mut first).await.unwrap_or_default() == 1 {}
                if &first == b"PRI" {
                    let mut connection = h2::server::handshake(socket).await.unwrap();
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        let mut stream = respond.send_response(Response::new(()), false).unwrap();
                        stream.send_data(Bytes::from_static(b"two"), false).unwrap();
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", HeaderValue::from_static("0"));
                        stream.send_trailers(trailers).unwrap();
                    }
                    return;
                }
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await.unwrap());
                }
                socket
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\none")
                    .await
                    .unwrap();
            });
        }
    });
    let text = plan("", &[("c", address)], "").replace("httpVersion: '2'", "httpVersion: same");
    let running = Running::start(&text).await;
    let streams = StreamClient::connect(&running).await;
    let mut client = Client::connect(&running).await;
    for _ in 0..3 {
        let (coming, _) = streams.send(get("a.test", "/"), true).await.unwrap();
        let heard = answer(coming).await.unwrap();
        assert_eq!(
            (heard.body.as_str(), &heard.trailers["grpc-status"]),
            ("two", &HeaderValue::from_static("0"))
        );
        let (head, body) = client.ask("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await;
        assert_eq!((status(&head), body.as_str()), (200, "one"));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_share_a_connection_as_far_as_the_endpoint_lets_them() {
    let barrier = Arc::new(Barrier::new(9));
    let kept = Arc::clone(&barrier);
    let backend = StreamBackend::with(Builder::new().max_concurrent_streams(4), move |request, respond| {
        let barrier = Arc::clone(&kept);
        Box::pin(async move {
            if request.uri().path() == "/together" {
                barrier.wait().await;
            }
            echo(request, respond).await
        })
    })
    .await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    // On one core, so that all could share.
    let client = StreamClient::connect(&running).await;
    client.get("a", "/").await;
    let mut coming = Vec::new();
    for _ in 0..8 {
        coming.push(client.send(get("a", "/together"), true).await.unwrap().0);
    }
    soon(barrier.wait()).await;
    for coming in coming {
        assert_eq!(answer(coming).await.unwrap().status, 200);
    }
    assert_eq!(backend.connections(), 2, "four requests at a time on each");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_together_open_one_connection() {
    let backend = StreamBackend::echoing().await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    let mut coming = Vec::new();
    for _ in 0..50 {
        coming.push(client.send(get("a", "/"), true).await.unwrap().0);
    }
    for coming in coming {
        assert_eq!(answer(coming).await.unwrap().status, 200);
    }
    assert_eq!(backend.connections(), 1);
    running.stop().await;
}

/// A server whose every move is told.
struct Scripted {
    listener: TcpListener,
}

impl Scripted {
    async fn accept(&self) -> tokio::net::TcpStream {
        let (mut stream, _) = soon(self.listener.accept()).await.unwrap();
        let mut preface = vec![0; PREFACE.len()];
        soon(stream.read_exact(&mut preface)).await.unwrap();
        assert_eq!(preface, PREFACE);
        stream.write_all(&frame(SETTINGS, 0, 0, b"")).await.unwrap();
        stream
    }
}

/// Reads up to the next head.
async fn head(stream: &mut tokio::net::TcpStream) -> Frame {
    loop {
        let mut header = [0; 9];
        soon(stream.read_exact(&mut header)).await.unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
        soon(stream.read_exact(&mut payload)).await.unwrap();
        if header[3] == HEADERS {
            let id = u32::from_be_bytes(header[5..9].try_into().unwrap());
            return Frame { kind: HEADERS, flags: header[4], stream: id, payload };
        }
        if header[3] == SETTINGS && header[4] == 0 {
            stream.write_all(&frame(SETTINGS, 1, 0, b"")).await.unwrap();
        }
        if header[3] == super::streams::PING && header[4] == 0 {
            stream.write_all(&frame(super::streams::PING, 1, 0, &payload)).await.unwrap();
        }
    }
}

/// An answer with nothing but its status, 204.
fn no_content(stream: u32) -> Vec<u8> {
    frame(HEADERS, 5, stream, &[0x89])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_to_a_connection_that_ends() {
    let server = Scripted { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let running = Running::start(&plan("", &[("c", server.listener.local_addr().unwrap())], "")).await;
    let client = StreamClient::connect(&running).await;

    // A GOAWAY that leaves a request out, though it can't be sent twice: it is sent on another connection.
    let (coming, mut stream) = client.send(post("a", "/1"), false).await.unwrap();
    let mut first = server.accept().await;
    let asked = head(&mut first).await;
    first.write_all(&frame(GOAWAY, 0, 0, &[0; 8])).await.unwrap();
    let mut second = server.accept().await;
    assert_eq!(head(&mut second).await.stream, asked.stream, "the first of its connection");
    push(&mut stream, Bytes::from_static(b"x"), true).await.unwrap();
    second.write_all(&no_content(1)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);

    // A stream that is refused.
    let (coming, _stream) = client.send(post("a", "/2"), true).await.unwrap();
    let refused = head(&mut second).await.stream;
    second.write_all(&frame(super::streams::RST_STREAM, 0, refused, &[0, 0, 0, 7])).await.unwrap();
    let again = head(&mut second).await.stream;
    second.write_all(&no_content(again)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);

    // A connection that goes without a word while the request is on its way.
    let (coming, _stream) = client.send(get("a", "/3"), true).await.unwrap();
    head(&mut second).await;
    drop(second);
    let mut third = server.accept().await;
    let asked = head(&mut third).await.stream;
    third.write_all(&no_content(asked)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);

    // One that was closed while nobody used it.
    drop(third);
    let (coming, _stream) = client.send(post("a", "/4"), true).await.unwrap();
    let mut fourth = server.accept().await;
    let asked = head(&mut fourth).await.stream;
    fourth.write_all(&no_content(asked)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);

    // A GOAWAY that leaves nothing out: what is under way is finished, what comes goes elsewhere.
    let (coming, _stream) = client.send(get("a", "/5"), true).await.unwrap();
    let asked = head(&mut fourth).await.stream;
    fourth.write_all(&frame(GOAWAY, 0, 0, &[&asked.to_be_bytes()[..], &[0; 4]].concat())).await.unwrap();
    let mut fifth = loop {
        let (other, _stream) = client.send(get("a", "/6"), true).await.unwrap();
        if let Ok(mut stream) =
            tokio::time::timeout(std::time::Duration::from_millis(500), server.accept()).await
        {
            let asked = head(&mut stream).await.stream;
            stream.write_all(&no_content(asked)).await.unwrap();
            assert_eq!(answer(other).await.unwrap().status, 204);
            break stream;
        }
    };
    fourth.write_all(&no_content(asked)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);
    fifth.shutdown().await.unwrap();
    running.stop().await;
}

/// Each of them is answered after a few tries, however many share a connection: not after as many as there are requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_drops_every_connection_is_not_asked_for_ever() {
    const TOGETHER: usize = 30;
    let server = Scripted { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let running = Running::start(&plan("", &[("c", server.listener.local_addr().unwrap())], "")).await;
    let client = StreamClient::connect(&running).await;
    let mut coming = Vec::new();
    for _ in 0..TOGETHER {
        coming.push(client.send(get("a", "/"), true).await.unwrap().0);
    }
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let serving = tokio::spawn(async move {
        // The first one goes once it carries all of them, each other one with its first.
        let mut wanted = TOGETHER;
        loop {
            let mut stream = server.accept().await;
            counted.fetch_add(1, Relaxed);
            for _ in 0..std::mem::replace(&mut wanted, 1) {
                head(&mut stream).await;
            }
        }
    });
    for coming in coming {
        assert_eq!(answer(coming).await.unwrap().status, 502);
    }
    let connections = connections.load(Relaxed);
    assert!(connections <= 5, "{connections} connections for {TOGETHER} requests");
    serving.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_sent_twice_is_not_sent_to_an_endpoint_that_is_silently_gone() {
    let server = Scripted { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let running = Running::start(&plan("", &[("c", server.listener.local_addr().unwrap())], "")).await;
    let client = StreamClient::connect(&running).await;
    let (coming, _stream) = client.send(get("a", "/"), true).await.unwrap();
    let mut first = server.accept().await;
    let asked = head(&mut first).await.stream;
    first.write_all(&no_content(asked)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);
    // It does not answer any more, and nothing says so.
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    let (coming, _stream) = client.send(post("a", "/"), true).await.unwrap();
    let mut second = server.accept().await;
    let asked = head(&mut second).await.stream;
    second.write_all(&no_content(asked)).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().status, 204);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_in_streams_are_tried_again_answered_and_counted() {
    let count = Arc::new(AtomicUsize::new(0));
    let heard = Arc::new(Barrier::new(2));
    let (counted, waited) = (Arc::clone(&count), Arc::clone(&heard));
    let backend = StreamBackend::with(&Builder::new(), move |request, mut respond| {
        let turn = counted.fetch_add(1, Relaxed);
        let heard = Arc::clone(&waited);
        Box::pin(async move {
            match request.uri().path() {
                "/again" if turn.is_multiple_of(2) => {
                    let failure = Response::builder().status(503).body(()).unwrap();
                    respond.send_response(failure, true).map(drop)
                }
                "/reset" => {
                    respond.send_reset(h2::Reason::INTERNAL_ERROR);
                    Ok(())
                }
                "/cut" => {
                    let mut stream = respond.send_response(Response::new(()), false)?;
                    push(&mut stream, Bytes::from_static(b"half"), false).await?;
                    heard.wait().await;
                    stream.send_reset(h2::Reason::INTERNAL_ERROR);
                    Ok(())
                }
                "/late" => {
                    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                    Ok(())
                }
                _ => echo(request, respond).await,
            }
        })
    })
    .await;
    let route = "retry: {attempts: 1, statuses: [503], backoff: 1ms}, timeouts: {attempt: 500ms},";
    let running = Running::start(&plan(route, &[("c", backend.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    assert_eq!(client.get("a", "/again").await.status, 200);
    assert_eq!(client.ask(post("a", "/reset"), "").await.unwrap().status, 502);
    assert_eq!(client.get("a", "/late").await.status, 504);
    let (coming, _stream) = client.send(get("a", "/cut"), true).await.unwrap();
    let mut body = soon(coming).await.unwrap().into_body();
    assert_eq!(next(&mut body).await, "half");
    soon(heard.wait()).await;
    assert!(read(&mut body).await.is_err());
    assert_eq!(backend.connections(), 1, "a stream's end is no connection's");
    let failed = ["causeway_requests_total", "class=\"5xx\""];
    eventually("two failures", || running.metric(&failed) == 2).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_not_read_stops_no_other_on_the_same_connection() {
    let backend = StreamBackend::with(&Builder::new(), |request, mut respond| {
        Box::pin(async move {
            if request.uri().path() != "/endless" {
                return echo(request, respond).await;
            }
            let mut stream = respond.send_response(Response::new(()), false)?;
            loop {
                push(&mut stream, Bytes::from(vec![0; 10_000]), false).await?;
            }
        })
    })
    .await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    let mut stalled = Vec::new();
    for _ in 0..10 {
        let (coming, _stream) = client.send(get("a", "/endless"), true).await.unwrap();
        stalled.push(soon(coming).await.unwrap());
    }
    // The client's own window is full, so it takes another one to ask.
    let other = StreamClient::connect(&running).await;
    for _ in 0..20 {
        assert_eq!(other.ask(post("a", "/"), &"x".repeat(100_000)).await.unwrap().body.len(), 100_000);
    }
    drop(stalled);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_reach_endpoints_of_http_2_from_either_protocol() {
    let backend = StreamBackend::with(Builder::new().enable_connect_protocol(), |request, respond| {
        Box::pin(async move {
            let protocol = request.extensions().get::<h2::ext::Protocol>().map(|p| p.as_str().to_owned());
            assert!(request.uri().path() == "/" || protocol.as_deref() == Some("websocket"));
            assert!(request.headers().get("sec-websocket-key").is_none());
            echo(request, respond).await
        })
    })
    .await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    assert_eq!(client.get("a.test", "/").await.status, 200);
    let (coming, mut stream) = client.send(websocket("/ws"), false).await.unwrap();
    let head = soon(coming).await.unwrap();
    assert_eq!(head.status().as_u16(), 200);
    let mut body = head.into_body();
    push(&mut stream, Bytes::from_static(b"ping"), false).await.unwrap();
    assert_eq!(next(&mut body).await, "ping");

    let mut old = Client::connect(&running).await;
    old.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n").await;
    let (head, _) = old.answer().await;
    assert_eq!(status(&head), 101);
    assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    old.send("pong").await;
    let mut heard = [0; 4];
    soon(old.stream.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"pong");
    old.stream.shutdown().await.unwrap();
    assert_eq!(old.rest().await, "");
    drop((client, stream, body));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_without_websockets_is_not_asked_for_one() {
    let backend = StreamBackend::echoing().await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let mut client = Client::connect(&running).await;
    let upgrade = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(status(&client.ask(upgrade).await.0), 502);
    assert_eq!(backend.asked().len(), 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_to_endpoints_of_http_2_too() {
    let [backend, there] = [StreamBackend::echoing().await, StreamBackend::echoing().await];
    let route = "filters: [{mirror: {cluster: there}}],";
    let running = Running::start(&plan(route, &[("c", backend.address), ("there", there.address)], "")).await;
    let client = StreamClient::connect(&running).await;
    assert_eq!(client.ask(post("a.test", "/1"), "hello").await.unwrap().body, "hello");
    assert_eq!(client.get("a.test", "/2").await.status, 200);
    eventually("two copies", || there.asked().len() == 2).await;
    let mut paths: Vec<String> = there.asked().iter().map(|asked| asked.uri.path().to_owned()).collect();
    paths.sort();
    assert_eq!(paths, ["/1", "/2"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_is_told_of_on_a_connection_of_its_own_where_that_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let text = plan("", &[("c", address)], "")
        .replace("httpVersion: '2',", "httpVersion: '2', sendProxyProtocol: v1,");
    let running = Running::start(&text).await;
    let client = StreamClient::connect(&running).await;
    for _ in 0..2 {
        let (coming, _stream) = client.send(get("a", "/"), true).await.unwrap();
        let (mut stream, _) = soon(listener.accept()).await.unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.push(soon(stream.read_u8()).await.unwrap());
        }
        assert!(line.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 "), "{}", line.escape_ascii());
        let mut preface = vec![0; PREFACE.len()];
        soon(stream.read_exact(&mut preface)).await.unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, b"")).await.unwrap();
        let asked = head(&mut stream).await.stream;
        stream.write_all(&no_content(asked)).await.unwrap();
        assert_eq!(answer(coming).await.unwrap().status, 204);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_does_not_speak_http_2_is_a_bad_gateway() {
    let backend = super::backend::HttpBackend::named("old").await;
    let running = Running::start(&plan("", &[("c", backend.address)], "")).await;
    let mut client = Client::connect(&running).await;
    assert_eq!(status(&client.ask(super::backend::get("a", "/")).await.0), 502);
    running.stop().await;
}
