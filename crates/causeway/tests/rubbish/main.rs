//! Bytes that no client should send, to the port of a running `causeway up`: it answers what can be answered, hangs
//! up on the rest, and serves others all the while.

#![allow(clippy::unwrap_used, clippy::panic)]

mod wire;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use causeway_testkit::server::Server;
use serde_json::Value;

use wire::{Answer, Wire};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn start() -> (Server, Wire) {
    let server = Server::start(&["--no-node", "--no-operator"]);
    let wire = Wire::new(&server);
    (server, wire)
}

/// The server still answers a sensible request, and soon.
fn assert_alive(wire: &Wire) {
    let began = Instant::now();
    let answer = wire.get("/readyz");
    assert_eq!((answer.code, answer.body.as_str()), (200, "ok"));
    assert!(began.elapsed() < Duration::from_secs(10), "took {:?}", began.elapsed());
}

fn status(answer: &Answer) -> Value {
    let status: Value = serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &answer.code.into()), "{answer:?}");
    status
}

#[test]
fn malformed_http_is_answered_or_hung_up_on() {
    let (_server, wire) = start();
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    let headers = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "b".repeat(1_000_000));
    let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "y: z\r\n".repeat(500));
    for (bytes, codes) in [
        (&b"\0\0\0\0\0\0\0\0\r\n\r\n"[..], &[400][..]),
        (b"GET\r\n\r\n", &[400]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400, 505]),
        (b"GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n", &[400]),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", &[400]),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", &[400]),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n", &[400, 401, 403, 405]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish that is no frame at all", &[]),
        (long.as_bytes(), &[400, 401, 403, 404, 414, 431]),
        (headers.as_bytes(), &[400, 431]),
        (many.as_bytes(), &[400, 431]),
    ] {
        let answer = wire.send(bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(
            answer.as_ref().is_none_or(|a| codes.contains(&a.code)),
            "{shown:?} is answered with {answer:?}"
        );
        assert_alive(&wire);
    }
}

#[test]
fn plain_http_and_other_protocols_do_no_harm() {
    let (_server, wire) = start();
    let answer = wire.plain(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(answer.contains("Client sent an HTTP request to an HTTPS server"), "{answer:?}");
    for bytes in [&b"SSH-2.0-OpenSSH_9.6\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[0xff; 4096], b""] {
        wire.plain(bytes);
        assert_alive(&wire);
    }
}

#[test]
fn bodies_that_are_too_large_deep_or_broken_get_a_status() {
    let (_server, wire) = start();
    let json = "application/json";
    let answer = wire.request("POST", CONFIG_MAPS, json, &vec![b' '; 4 << 20]);
    assert_eq!((answer.code, &status(&answer)["reason"]), (413, &"RequestEntityTooLarge".into()));
    let deep = "{\"a\":".repeat(200_000);
    for (media, body, code) in [
        (json, deep.as_bytes(), 400),
        ("application/yaml", deep.as_bytes(), 400),
        (json, "[".repeat(500_000).as_bytes(), 400),
        ("application/yaml", "- ".repeat(100_000).as_bytes(), 400),
        (json, b"{\"metadata\":{\"name\":\"\xff\xfe\"}}", 400),
        ("application/yaml", b"a: \xff\xfe", 400),
        (json, b"", 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\x01\x02", 400),
        ("image/png", b"{}", 415),
    ] {
        let answer = wire.request("POST", CONFIG_MAPS, media, body);
        assert_eq!(answer.code, code, "{media}: {answer:?}");
        let status = status(&answer);
        let reason = if code == 415 { "UnsupportedMediaType" } else { "BadRequest" };
        assert_eq!((&status["reason"], &status["status"]), (&reason.into(), &"Failure".into()));
        assert!(status["message"].as_str().is_some_and(|m| m.len() < 2000), "says it in short: {status}");
    }
    let answer = wire.request("PATCH", &format!("{CONFIG_MAPS}/kube-root-ca.crt"), json, b"{}");
    assert_eq!((answer.code, &status(&answer)["reason"]), (415, &"UnsupportedMediaType".into()));
    assert_alive(&wire);
}

#[test]
fn random_paths_and_methods_get_a_status() {
    let (_server, wire) = start();
    let pieces = [
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "pods",
        "%2e%2e",
        "%00",
        "..",
        "x",
        "openapi",
        "v3",
        "log",
        "%ff",
    ];
    let mut state = 12345_usize;
    for n in 0..300 {
        let mut path = String::new();
        for _ in 0..=(n % 8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            path = format!("{path}/{}", pieces[(state >> 33) % pieces.len()]);
        }
        let method = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"][(state >> 40) % 7];
        let answer = wire.request(method, &path, "application/json", b"{}");
        assert!(answer.code < 500, "{method} {path}: {answer:?}");
        if answer.code >= 400 {
            status(&answer);
        }
    }
    assert_alive(&wire);
}

#[test]
fn a_thousand_silent_connections_keep_nobody_out() {
    let (server, wire) = start();
    let address = server.url().trim_start_matches("https://").to_owned();
    let mut silent = Vec::new();
    for _ in 0..1000 {
        match TcpStream::connect(&address) {
            Ok(stream) => silent.push(stream),
            // This process may not have a thousand descriptors.
            Err(error) => {
                assert!(silent.len() > 200, "{error}");
                break;
            }
        }
    }
    assert_alive(&wire);
    let made = wire.request("POST", CONFIG_MAPS, "application/json", br#"{"metadata":{"name":"made"}}"#);
    assert_eq!(made.code, 201, "{made:?}");
    drop(silent);
    assert_alive(&wire);
}

#[test]
fn rubbish_on_a_forwarded_port_costs_its_session_alone() {
    let server = Server::start(&["--no-operator"]);
    let wire = Wire::new(&server);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = br#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "causeway.dev/causeway:1",
        "args": ["echo", "--listen", "$(POD_IP):8080"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}]}}"#;
    assert_eq!(wire.request("POST", pods, "application/json", pod).code, 201);
    causeway_testkit::blocking::eventually("the pod runs", Duration::from_mins(1), || {
        wire.get(&format!("{pods}/web")).body.contains("\"phase\":\"Running\"")
    });
    let upgrade = |method: &str, more: &str| {
        format!(
            "{method} {pods}/web/portforward?ports=8080 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n{more}\r\n"
        )
    };
    let websocket = |protocol: &str| {
        let key = "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        upgrade("GET", &format!("upgrade: websocket\r\n{key}sec-websocket-protocol: {protocol}\r\n"))
    };
    let heads = [
        websocket("v4.channel.k8s.io"),
        websocket("SPDY/3.1+portforward.k8s.io"),
        upgrade("POST", "upgrade: SPDY/3.1\r\nx-stream-protocol-version: portforward.k8s.io\r\n"),
    ];
    let mut dice = causeway_testkit::Dice::new(7);
    for round in 0..60 {
        let length = dice.below(400) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
        // Some of it looks like a beginning.
        let beginnings: [&[u8]; 4] = [
            b"",
            &[0x82, 0xfe, 0x10, 0, 0, 0, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 40],
            &[0, 0, 0, 1, 0, 0xff, 0xff, 0xff],
        ];
        let mut sent = beginnings[round % 4].to_vec();
        sent.append(&mut bytes);
        let said = wire.upgrade(&heads[round % 3], &sent);
        assert!(said.starts_with("HTTP/1.1 101 "), "{round}: {said}");
    }
    assert_alive(&wire);
    let log = server.log();
    assert!(!log.contains("panic"), "{log}");
}
