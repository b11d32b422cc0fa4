//! Clients that speak HTTP/2, and endpoints that may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use causeway_engine::AccessLog;
use http::{HeaderMap, HeaderValue, Request};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::backend::{HttpBackend, all_to, ok, plan};
use super::streams::{
    DATA, GOAWAY, HEADERS, RST_STREAM, RawClient, SETTINGS, StreamClient, answer, asking, frame, get, next,
    post, push, read, soon, websocket,
};
use crate::support::{Running, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_streams_are_served_as_all_others_are() {
    let [one, two] = [HttpBackend::named("one").await, HttpBackend::named("two").await];
    let routes = "      - {name: r1, hosts: [a.test], matches: [{path: {prefix: /one}}], filters: [{rewrite: {path: {prefix: /1}}}, \
                  {requestHeaders: {set: [{name: X-Set, value: new}]}}, {responseHeaders: {add: [{name: X-Out, value: yes}]}}], action: {forward: one}}\n\
                  \x20     - {name: r2, hosts: [a.test], matches: [{headers: [{name: X-Who, value: {exact: two}}]}], action: {forward: two}}\n\
                  \x20     - {name: r3, hosts: [a.test], matches: [{path: {prefix: /old}}], action: {redirect: {path: {prefix: /one}, status: 301}}}\n\
                  \x20     - {name: r4, hosts: [a.test], matches: [{path: {exact: /fixed}}], action: {respond: {status: 418, body: short}}}\n\
                  \x20     - {name: r5, hosts: [cors.test], filters: [{cors: {allowOrigins: ['https://p.test']}}], action: {forward: one}}";
    let running = Running::start(&plan(routes, &[("one", &[one.address]), ("two", &[two.address])])).await;
    let client = StreamClient::connect(&running).await;
    let request = Request::get("http://a.test/one/x/../y?q=1")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .header("te", "trailers")
        .header("x-set", "old")
        .header("x-forwarded-for", "1.2.3.4")
        .body(())
        .unwrap();
    let found = client.ask(request, "").await.unwrap();
    assert_eq!((found.status, found.body.as_str(), found.header("x-out")), (200, "one", "yes"));
    assert_eq!(found.header("content-length"), "3");
    let asked = &one.asked()[0];
    assert_eq!(asked.line(), "GET /1/y?q=1");
    for (name, values) in [
        ("host", &["a.test"][..]),
        ("cookie", &["a=1; b=2"]),
        ("x-set", &["new"]),
        ("x-forwarded-for", &["127.0.0.1"]),
        ("te", &[]),
        ("transfer-encoding", &[]),
    ] {
        assert_eq!(asked.values(name), values, "{name}");
    }
    let two = client
        .ask(Request::get("http://a.test/").header("x-who", "two").body(()).unwrap(), "")
        .await
        .unwrap();
    assert_eq!(two.body, "two");
    let moved = client.get("a.test", "/old/x").await;
    assert_eq!((moved.status, moved.header("location").ends_with("/one/x")), (301, true));
    let fixed = client.get("a.test", "/fixed").await;
    assert_eq!((fixed.status, fixed.body.as_str()), (418, "short"));
    let lost = client.get("b.test", "/").await;
    assert_eq!((lost.status, lost.body.as_str()), (404, "Not Found\n"));
    let question = Request::options("http://cors.test/")
        .header("origin", "https://p.test")
        .header("access-control-request-method", "PUT");
    let allowed = client.ask(question.body(()).unwrap(), "").await.unwrap();
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (204, "https://p.test"));
    let head = client.ask(Request::head("http://a.test/one").body(()).unwrap(), "").await.unwrap();
    assert_eq!((head.status, head.body.as_str(), head.header("content-length")), (200, "", "3"));
    let counted = ["causeway_requests_total", "route=\"r1\"", "class=\"2xx\""];
    eventually("two requests", || running.metric(&counted) == 2).await;
    assert_eq!(one.connections(), 1, "connections are used again");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_are_under_way_at_a_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let client = StreamClient::connect(&running).await;
    let mut coming = Vec::new();
    let mut servers = Vec::new();
    for i in 0..20 {
        coming.push(client.send(get("a.test", &format!("/{i}")), true).await.unwrap().0);
        let (mut server, _) = soon(listener.accept()).await.unwrap();
        let mut bytes = [0; 1000];
        let count = server.read(&mut bytes).await.unwrap();
        let path = String::from_utf8_lossy(&bytes[..count]).split(' ').nth(1).unwrap().to_owned();
        servers.push((server, path));
    }
    // The last is answered first.
    for (server, path) in servers.iter_mut().rev() {
        server.write_all(&ok(path)).await.unwrap();
    }
    for (i, coming) in coming.into_iter().enumerate() {
        assert_eq!(answer(coming).await.unwrap().body, format!("/{i}"));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_streams_go_both_ways_however_the_endpoint_frames_them() {
    let backend = HttpBackend::answering(|asked| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        match asked.line().split(' ').nth(1).unwrap() {
            "/chunks" => format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nX-After: it\r\nContent-Length: 3\r\n\r\n",
                body.len()
            )
            .into(),
            "/nothing" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            _ => ok(&body),
        }
    })
    .await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let client = StreamClient::connect(&running).await;
    let large = "x".repeat(700_000);
    for body in ["hello", &large] {
        for path in ["/length", "/chunks"] {
            let answer = client.ask(post("a.test", path), body).await.unwrap();
            assert_eq!((answer.status, answer.body == body), (200, true), "{path}");
            assert!(answer.headers.get("transfer-encoding").is_none());
            let after = answer.trailers.get("x-after").map(HeaderValue::as_bytes);
            assert_eq!(after, (path == "/chunks").then_some(&b"it"[..]));
            assert!(answer.trailers.get("content-length").is_none());
            let mut counted = post("a.test", path);
            counted.headers_mut().insert("content-length", body.len().into());
            assert_eq!(client.ask(counted, body).await.unwrap().body.len(), body.len());
        }
    }
    assert_eq!(client.get("a.test", "/nothing").await.status, 204);
    let framed: Vec<_> =
        backend.asked().iter().map(|asked| asked.values("transfer-encoding").len()).collect();
    assert!(framed.contains(&0) && framed.contains(&1), "{framed:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_proper_request_is_answered_or_its_stream_reset_and_no_other() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let mut raw = RawClient::connect(&running).await;
    let mut stream = 1;
    for more in [
        [("connection", "close")],
        [("transfer-encoding", "chunked")],
        [("upgrade", "websocket")],
        [("te", "gzip")],
        [("keep-alive", "1")],
        [("content-length", "5")],
    ] {
        raw.send(&asking(stream, &more)).await;
        let reset = raw.find(RST_STREAM).await;
        assert_eq!((reset.stream, reset.error()), (stream, 1), "{more:?}");
        stream += 2;
    }
    raw.send(&asking(stream, &[("host", "A.test")])).await;
    let head = raw.find(HEADERS).await;
    assert_eq!((head.stream, head.payload[0]), (stream, 0x88), "200 has a byte of its own");
    assert_eq!(backend.asked().len(), 1, "nothing else went on");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_understood_and_not_taken_is_answered() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let client = StreamClient::connect(&running).await;
    let many = vec![("x", "y"); 130];
    for (more, status) in [
        (&[("host", "b.test")][..], 400),
        (&[("content_length", "5")], 400),
        (&[("expect", "wonders")], 417),
        (&many, 431),
    ] {
        let asking =
            |request: http::request::Builder, (name, value): &(&str, &str)| request.header(*name, *value);
        let request = more.iter().fold(Request::get("http://a.test/"), asking).body(()).unwrap();
        assert_eq!(client.ask(request, "").await.unwrap().status, status, "{status}");
    }
    let connect = Request::connect("a.test:80").body(()).unwrap();
    assert_eq!(client.ask(connect, "").await.unwrap().status, 405);
    let mut long = post("a.test", "/");
    long.headers_mut().insert("content-length", HeaderValue::from_static("3"));
    let error = client.ask(long, "four").await.unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::PROTOCOL_ERROR));
    assert_eq!(client.get("a.test", "/").await.body, "ok");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_words_of_an_endpoint_reach_the_client_before_the_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let client = StreamClient::connect(&running).await;
    let mut request = post("a.test", "/");
    request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
    let (mut coming, mut stream) = client.send(request, false).await.unwrap();
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    let mut bytes = [0; 1000];
    let count = server.read(&mut bytes).await.unwrap();
    assert!(String::from_utf8_lossy(&bytes[..count]).contains("expect: 100-continue"));
    server
        .write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        .await
        .unwrap();
    let mut interim = Vec::new();
    while interim.len() < 2 {
        let head = soon(std::future::poll_fn(|cx| coming.poll_informational(cx))).await.unwrap().unwrap();
        interim.push(head.status().as_u16());
    }
    assert_eq!(interim, [103, 100]);
    push(&mut stream, Bytes::from_static(b"hi"), true).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"0\r\n\r\n") {
        let count = soon(server.read(&mut bytes)).await.unwrap();
        heard.extend_from_slice(&bytes[..count]);
    }
    server.write_all(&ok("done")).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().body, "done");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_a_request_back_ends_it_at_the_endpoint_and_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let client = StreamClient::connect(&running).await;
    let (kept, _stream) = client.send(get("a.test", "/kept"), true).await.unwrap();
    let (mut first, _) = soon(listener.accept()).await.unwrap();
    let _ = first.read(&mut [0; 1000]).await.unwrap();
    let (_coming, mut stream) = client.send(get("a.test", "/back"), true).await.unwrap();
    let (mut second, _) = soon(listener.accept()).await.unwrap();
    let _ = second.read(&mut [0; 1000]).await.unwrap();
    stream.send_reset(h2::Reason::CANCEL);
    assert_eq!(soon(second.read(&mut [0; 10])).await.unwrap_or(0), 0, "closed");
    first.write_all(&ok("still")).await.unwrap();
    assert_eq!(answer(kept).await.unwrap().body, "still");
    // An answer that ends with its connection is whole, one that breaks off is not.
    let (coming, _stream) = client.send(get("a.test", "/end"), true).await.unwrap();
    let _ = first.read(&mut [0; 1000]).await.unwrap();
    first.write_all(b"HTTP/1.1 200 OK\r\n\r\nto the end").await.unwrap();
    drop(first);
    assert_eq!(answer(coming).await.unwrap().body, "to the end");
    let (coming, _stream) = client.send(get("a.test", "/cut"), true).await.unwrap();
    let (mut cut, _) = soon(listener.accept()).await.unwrap();
    cut.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
    let (_, mut body) = soon(coming).await.unwrap().into_parts();
    assert_eq!(next(&mut body).await, "half");
    drop(cut);
    assert!(read(&mut body).await.is_err());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_room_makes_the_endpoint_wait_and_stops_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let serving = tokio::spawn(async move {
        loop {
            let (mut server, _) = listener.accept().await.unwrap();
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut bytes = [0; 1000];
                let length = server.read(&mut bytes).await.unwrap();
                if !String::from_utf8_lossy(&bytes[..length]).contains("/endless") {
                    return server.write_all(&ok("quick")).await;
                }
                server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").await?;
                loop {
                    server.write_all(&[0; 10_000]).await?;
                    count.fetch_add(10_000, Relaxed);
                }
            });
        }
    });
    let client = StreamClient::connect(&running).await;
    let (coming, stream) = client.send(get("a.test", "/endless"), true).await.unwrap();
    // It is not read.
    let stalled = soon(coming).await.unwrap();
    let mut before = usize::MAX;
    causeway_testkit::eventually("a stop", async || {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let now = sent.load(Relaxed);
        std::mem::replace(&mut before, now) == now
    })
    .await;
    assert!(before < 40_000_000, "{before} bytes are somewhere");
    assert_eq!(client.get("a.test", "/").await.body, "quick");
    assert_eq!(StreamClient::connect(&running).await.get("a.test", "/").await.body, "quick");
    drop((stalled, stream));
    serving.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_goes_says_so_and_lets_streams_finish() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut running =
        Running::start(&format!("{}drainTimeout: 1h", all_to(&[listener.local_addr().unwrap()]))).await;
    let mut idle = RawClient::connect(&running).await;
    idle.find(SETTINGS).await;
    let busy = StreamClient::connect(&running).await;
    let (coming, _stream) = busy.send(get("a.test", "/"), true).await.unwrap();
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    let _ = server.read(&mut [0; 1000]).await.unwrap();
    running.change(|plan| plan.listeners.clear()).await;
    let farewell = idle.find(GOAWAY).await;
    assert_eq!(farewell.error(), 0);
    idle.rest().await;
    server.write_all(&ok("done")).await.unwrap();
    assert_eq!(answer(coming).await.unwrap().body, "done");
    assert!(soon(busy.driver).await.unwrap().is_ok(), "a GOAWAY without an error");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_say_nothing_are_not_waited_for() {
    let backend = HttpBackend::named("ok").await;
    let running =
        Running::start(&format!("{}limits: {{handshakeTimeout: 200ms}}", all_to(&[backend.address]))).await;
    // Half a preface, no request, half a head.
    let mut stream = running.connect("in").await;
    stream.write_all(&super::streams::PREFACE[..20]).await.unwrap();
    crate::support::read_all(&mut stream).await;
    running.closed("handshakeTimeout", 1).await;
    let mut mute = RawClient::connect(&running).await;
    assert_eq!(mute.find(GOAWAY).await.error(), 0);
    running.closed("idleTimeout", 1).await;
    let mut slow = RawClient::connect(&running).await;
    slow.send(&asking(1, &[])).await;
    slow.find(DATA).await;
    slow.send(&frame(HEADERS, 1, 3, b"\x82")).await;
    assert_eq!(slow.find(GOAWAY).await.error(), 11);
    running.closed("handshakeTimeout", 2).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_in_a_stream_becomes_an_upgrade_and_outlives_its_route() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut running =
        Running::start(&format!("{}drainTimeout: 1h", all_to(&[listener.local_addr().unwrap()]))).await;
    let client = StreamClient::connect(&running).await;
    // It is told with the settings, which come with the first answer.
    assert_eq!(client.ask(Request::connect("a.test:80").body(()).unwrap(), "").await.unwrap().status, 405);
    assert!(client.knows_websockets());
    let (coming, mut to_server) = client.send(websocket("/ws"), false).await.unwrap();
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    let mut bytes = [0; 2000];
    let count = server.read(&mut bytes).await.unwrap();
    let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
    for line in [
        "GET /ws HTTP/1.1",
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: ",
    ] {
        assert!(head.contains(line), "{head}");
    }
    server
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: y\r\nSec-WebSocket-Protocol: p\r\n\r\nhello")
        .await
        .unwrap();
    let (parts, mut body) = soon(coming).await.unwrap().into_parts();
    assert_eq!(parts.status.as_u16(), 200);
    assert_eq!(parts.headers["sec-websocket-protocol"], "p");
    assert!(parts.headers.get("sec-websocket-accept").is_none() && parts.headers.get("upgrade").is_none());
    assert_eq!(next(&mut body).await, "hello");
    push(&mut to_server, Bytes::from_static(b"ping"), false).await.unwrap();
    let mut heard = [0; 4];
    soon(server.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"ping");
    running.change(|plan| plan.listeners.clear()).await;
    server.write_all(b"still").await.unwrap();
    assert_eq!(next(&mut body).await, "still");
    to_server.send_data(Bytes::new(), true).unwrap();
    assert_eq!(soon(server.read(&mut heard)).await.unwrap(), 0, "half closed");
    drop(server);
    assert_eq!(read(&mut body).await.unwrap(), (Vec::new(), HeaderMap::new()));
    eventually("no connection", || running.metric(&["causeway_connections_active"]) == 0).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_stream_has_its_line_in_the_log() {
    let backend = HttpBackend::named("ok").await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let running = Running::with(&all_to(&[backend.address]), AccessLog::File(path.clone())).await;
    let client = StreamClient::connect(&running).await;
    client.ask(post("a.test", "/x?y"), "four").await.unwrap();
    client.get("a.test", "/z").await;
    eventually("two lines", || {
        std::fs::read_to_string(&path)
            .unwrap_or_default()
            .lines()
            .filter(|l| l.contains("\"method\""))
            .count()
            == 2
    })
    .await;
    let text = std::fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for (field, value) in [("method", "POST"), ("host", "a.test"), ("path", "/x"), ("route", "all")] {
        assert_eq!(line[field], value, "{line}");
    }
    assert_eq!((&line["status"], &line["bytesUp"]), (&200.into(), &4.into()));
    running.stop().await;
}
