//! Requests that go to an endpoint and answers that come back.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::backend::{Client, HttpBackend, all_to, get, ok, plan, status};
use crate::support::{PATIENCE, Running, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_find_their_endpoints_by_host_path_method_header_and_query() {
    let [one, two] = [HttpBackend::named("one").await, HttpBackend::named("two").await];
    let routes = "      - {name: r1, hosts: [a.test], matches: [{path: {prefix: /one}}, {method: PUT}], action: {forward: one}}\n\
                  \x20     - {name: r2, hosts: ['*.test'], matches: [{headers: [{name: X-Who, value: {exact: two}}]}, \
                  {query: [{name: who, value: {exact: two}}]}, {path: {exact: /two}}], action: {forward: two}}";
    let running = Running::start(&plan(routes, &[("one", &[one.address]), ("two", &[two.address])])).await;
    let mut client = Client::connect(&running).await;
    for (request, expected) in [
        (get("a.test", "/one/x"), (200, "one")),
        (get("A.Test:80", "/x/../one"), (200, "one")),
        (get("a.test", "/two"), (200, "two")),
        (get("b.test", "/one?a=b&who=two"), (200, "two")),
        (get("b.test", "/one"), (404, "Not Found\n")),
        (get("other", "/one"), (404, "Not Found\n")),
        ("PUT /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n".into(), (200, "one")),
        ("GET /x HTTP/1.1\r\nHost: a.test\r\nx-who: two\r\n\r\n".into(), (200, "two")),
    ] {
        let (head, body) = client.ask(&request).await;
        assert_eq!((status(&head), body.as_str()), expected, "{request}");
    }
    assert_eq!((one.connections(), two.connections()), (1, 1), "connections are used again");
    drop(client);
    running.closed("finished", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_hear_who_the_client_is_and_nothing_that_was_for_us() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let mut client = Client::connect(&running).await;
    let request = "GET /a?q=%2 HTTP/1.1\r\nHost: A.test\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n\
                   X-Real-IP: 1.2.3.4\r\nX_Forwarded_For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\nConnection: keep-alive, X-Mine\r\n\
                   X-Mine: secret\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X\r\nProxy-Connection: close\r\n\
                   Accept: text/plain\r\ntraceparent: 00-1-2-01\r\n\r\n";
    assert_eq!(status(&client.ask(request).await.0), 200);
    let asked = &backend.asked()[0];
    assert_eq!(asked.line(), "GET /a?q=%2");
    for (name, values) in [
        ("host", &["A.test"][..]),
        ("x-forwarded-for", &["127.0.0.1"]),
        ("x-forwarded-proto", &["http"]),
        ("x-forwarded-host", &["A.test"]),
        ("x-forwarded-port", &[running.address("in").port().to_string().as_str()]),
        ("forwarded", &["for=127.0.0.1;proto=http;host=A.test"]),
        ("accept", &["text/plain"]),
        ("traceparent", &["00-1-2-01"]),
    ] {
        assert_eq!(asked.values(name), values, "{name}");
    }
    for name in [
        "x-real-ip",
        "x_forwarded_for",
        "connection",
        "x-mine",
        "keep-alive",
        "te",
        "trailer",
        "proxy-connection",
    ] {
        assert!(asked.values(name).is_empty(), "{name}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_go_both_ways_by_length_in_chunks_and_to_the_end() {
    let backend = HttpBackend::answering(|asked| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        match asked.line().split(' ').nth(1).unwrap() {
            "/chunks" => format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            )
            .into(),
            "/end" => format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}").into(),
            "/nothing" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            _ => ok(&body),
        }
    })
    .await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let large = "x".repeat(300_000);
    for body in ["hello", &large] {
        let mut client = Client::connect(&running).await;
        for path in ["/length", "/chunks"] {
            let request =
                format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            assert_eq!(client.ask(request).await.1, body, "{path}");
            let half = body.len() / 2;
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{half:x}\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                &body[..half],
                body.len() - half,
                &body[half..]
            );
            assert_eq!(client.ask(request).await.1, body, "{path} in chunks");
        }
        let (head, nothing) = client.ask(get("a", "/nothing")).await;
        assert!(status(&head) == 204 && nothing.is_empty() && !head.contains("length"), "{head}");
        let head = client.ask("HEAD /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.0;
        assert!(head.contains("content-length: 0"), "{head}");
    }
    assert!(backend.asked().iter().any(|asked| asked.body.len() == large.len()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_ends_with_its_connection_is_whole_for_the_client_or_visibly_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let serving = tokio::spawn(async move {
        for answer in [
            "HTTP/1.1 200 OK\r\n\r\nto the end",
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n",
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let mut client = Client::connect(&running).await;
    assert_eq!(client.ask(get("a", "/")).await.1, "to the end");
    client.send(get("a", "/")).await;
    assert!(client.rest().await.len() < 100);
    let mut client = Client::connect(&running).await;
    client.send(get("a", "/")).await;
    assert!(!client.rest().await.contains("0\r\n\r\n"));
    serving.await.unwrap();
    running.closed("endpointReset", 2).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_for_a_word_gets_the_endpoints_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 1000];
        let count = stream.read(&mut bytes).await.unwrap();
        let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            .await
            .unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        (head, body)
    });
    let mut client = Client::connect(&running).await;
    let head =
        client.ask("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").await.0;
    assert_eq!(status(&head), 100);
    assert_eq!(status(&client.answer().await.0), 103);
    assert_eq!(status(&client.ask("hello").await.0), 200);
    let (head, body) = serving.await.unwrap();
    assert!(head.contains("Expect: 100-continue") && &body == b"hello", "{head}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_end_of_the_request_is_passed_on_and_ends_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1000]).await;
        stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let mut client = Client::connect(&running).await;
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome").await;
    let answer = client.rest().await;
    assert!(status(&answer) == 413 && answer.contains("connection: close"), "{answer}");
    tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_0_is_spoken_with_those_who_know_no_other() {
    let backend = HttpBackend::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_vec()
    })
    .await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let mut client = Client::connect(&running).await;
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    let answer = client.rest().await;
    assert!(answer.ends_with("\r\n\r\nok") && answer.contains("connection: close"), "{answer}");
    assert_eq!(backend.asked()[0].values("host"), [""]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_passed_on_as_they_come_and_idle_connections_are_let_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = Running::start(&all_to(&[listener.local_addr().unwrap()])).await;
    let mut client = Client::connect(&running).await;
    client.send(get("a", "/events")).await;
    let (mut stream, _) = listener.accept().await.unwrap();
    let _ = stream.read(&mut [0; 1000]).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        stream.write_all(event.as_bytes()).await.unwrap();
        while !bytes.windows(event.len()).any(|window| window == event.as_bytes()) {
            let mut buffer = [0; 1000];
            let count =
                tokio::time::timeout(PATIENCE, client.stream.read(&mut buffer)).await.unwrap().unwrap();
            assert!(count > 0);
            bytes.extend_from_slice(&buffer[..count]);
        }
    }
    assert_eq!(running.handle.connections().await.len(), 1);
    // The client leaves, and the endpoint hears of it.
    drop(client);
    let gone = async {
        while stream.write_all(b"data: 3\n\n").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    eventually("no connection", || running.metric(&["causeway_connections_active"]) == 0).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_do_not_believe_what_clients_say_of_themselves() {
    let [open, closed] = [HttpBackend::named("open").await, HttpBackend::named("closed").await];
    let of =
        |name: &str, value: &str| format!("{{headers: [{{name: {name}, value: {{regex: '{value}'}}}}]}}");
    let matches = [
        of("x-forwarded-proto", "https"),
        of("ssl-client-verify", "SUCCESS"),
        of("x-forwarded-client-cert", ".*"),
        of("x-forwarded-user", ".*"),
        of("x-forwarded-for", "10[.].*"),
        of("x-forwarded-host", "admin"),
        of("x-forwarded-port", "4[0-9]*43"),
        of("forwarded", ".*for=10[.].*"),
        of("x-real-ip", ".*"),
    ];
    let routes = |proxies: &str| {
        let routes = format!(
            "      - {{name: told, matches: [{}], action: {{forward: closed}}}}\n\
             \x20     - {{name: rest, action: {{forward: open}}}}",
            matches.join(", ")
        );
        let text = plan(&routes, &[("open", &[open.address]), ("closed", &[closed.address])]);
        text.replace("      routes:\n", &format!("{proxies}      routes:\n"))
    };
    let running = Running::start(&routes("")).await;
    let mut client = Client::connect(&running).await;
    for line in [
        "X-Forwarded-Proto: https",
        "SSL-Client-Verify: SUCCESS",
        "ssl_client_verify: SUCCESS",
        "X-Forwarded-Client-Cert: Hash=0",
        "X-Forwarded-User: root",
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Host: admin",
        "X-Forwarded-Port: 443",
        "Forwarded: for=10.0.0.1",
        "X-Real-IP: 10.0.0.1",
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        assert_eq!(client.ask(request).await.1, "open", "{line}");
    }
    assert!(open.asked().iter().all(|asked| asked.values("x-forwarded-user").is_empty()));
    // What is told onward is what counts.
    assert_eq!(client.ask(get("admin", "/")).await.1, "closed");
    running.stop().await;
    let running = Running::start(&routes("      trustedProxies: {from: [127.0.0.0/8]}\n")).await;
    let mut client = Client::connect(&running).await;
    for (lines, expected) in [
        ("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n", "closed"),
        ("X-Forwarded-For: 10.0.0.1\r\n", "closed"),
        ("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Port: 4443\r\n", "closed"),
        ("X-Forwarded-For: 192.0.2.1\r\nForwarded: for=10.0.0.1\r\n", "open"),
        ("X-Forwarded-For: 192.0.2.1\r\n", "open"),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(client.ask(request).await.1, expected, "{lines}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_unseen_adds_nothing_and_keeps_what_was_told() {
    let [open, closed] = [HttpBackend::named("open").await, HttpBackend::named("closed").await];
    let routes = "      - {name: told, matches: [{headers: [{name: x-forwarded-user, value: {exact: me}}]}], action: {forward: closed}}\n\
         \x20     - {name: rest, action: {forward: open}}";
    let text = plan(routes, &[("open", &[open.address]), ("closed", &[closed.address])]);
    let running =
        Running::start(&text.replace("      routes:\n", "      transparent: true\n      routes:\n")).await;
    let mut client = Client::connect(&running).await;
    let lines = "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=10.0.0.1\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    assert_eq!(client.ask(request).await.1, "open");
    let asked = open.asked().pop().unwrap();
    for (name, expected) in [
        ("x-forwarded-for", &["10.0.0.1"][..]),
        ("x-forwarded-proto", &["https"]),
        ("forwarded", &["for=10.0.0.1"]),
        ("x-forwarded-host", &[]),
        ("x-forwarded-port", &[]),
    ] {
        assert_eq!(asked.values(name), expected, "{name}");
    }
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-User: me\r\n\r\n".to_owned();
    assert_eq!(client.ask(request).await.1, "closed");
    running.stop().await;
}
