//! Everything bad at once, from files and through the wire: each gets the right status or answer, and the rest is served.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::port;

use crate::backend::{Authority, backend, curl, service, tls_secret};
use crate::files::{Gateway, conditions};

/// What no answer takes, whatever it was asked.
const SOON: Duration = Duration::from_secs(5);

fn write(dir: &Path, file: &str, text: &str) {
    std::fs::write(dir.join(file), text).unwrap();
}

/// A Gateway with a good listener of both kinds, and many bad ones.
fn gateway(http: u16, https: u16, other: u16) -> String {
    let secured = |name: &str, secret: &str| {
        format!(
            "  - {{name: {name}, port: {https}, protocol: HTTPS, hostname: {name}.test, tls: {{certificateRefs: [{secret}]}}}}\n"
        )
    };
    let named = |name: &str| secured(name, &format!("{{name: {name}}}"));
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: causeway
  listeners:
  - {{name: http, port: {http}, protocol: HTTP}}
  - {{name: again, port: {http}, protocol: HTTP}}
  - {{name: tcp, port: {http}, protocol: TCP}}
  - {{name: strange, port: {other}, protocol: example.com/strange}}
"
    );
    for name in ["good", "expired", "other-key", "unreadable", "nowhere"] {
        text += &named(name);
    }
    text + &secured("foreign", "{name: good, namespace: elsewhere}") + "---\n"
}

/// A route of the good listeners with these rules.
fn route(name: &str, host: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [{host}]
  rules: {rules}
---
"
    )
}

/// Certificates: a good one, and those that are not.
fn secrets(authority: &Authority) -> String {
    let (past, earlier) = (rcgen::date_time_ymd(2021, 1, 1), rcgen::date_time_ymd(2020, 1, 1));
    let (old, old_key) = authority.certificate("expired.test", |params| {
        (params.not_before, params.not_after) = (earlier, past);
    });
    let (certificate, _) = authority.certificate("other-key.test", |_| {});
    let (_, other_key) = authority.certificate("other-key.test", |_| {});
    [
        authority.secret("good", "good.test", 7),
        tls_secret("expired", &old.pem(), &old_key.serialize_pem()),
        tls_secret("other-key", &certificate.pem(), &other_key.serialize_pem()),
        tls_secret("unreadable", "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----", "no key"),
    ]
    .join("---\n")
}

/// All that is said to these bytes on a connection, until it ends.
fn say(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    // It may be closed before all is said.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn whatever_is_bad_is_told_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let authority = Authority::new();
    let (http, https) = (port::free(), port::free());
    let to = "backendRefs: [{name: one, port: 80}]";
    let routes = [
        route("good", "good.test", &format!("[{{{to}}}]")),
        route("lost", "lost.test", "[{backendRefs: [{name: nobody, port: 80}]}]"),
        route("foreign", "foreign.test", "[{backendRefs: [{name: one, namespace: elsewhere, port: 80}]}]"),
        route(
            "slow",
            "slow.test",
            &format!("[{{matches: [{{path: {{type: RegularExpression, value: '/(a+)+(a+)+b'}}}}], {to}}}]"),
        ),
        route(
            "vast",
            "vast.test",
            &format!(
                "[{{matches: [{{path: {{type: RegularExpression, value: '/((a{{1000}}){{1000}}){{1000}}'}}}}], {to}}}]"
            ),
        ),
        route(
            "broken",
            "broken.test",
            &format!("[{{matches: [{{path: {{type: RegularExpression, value: '/('}}}}], {to}}}]"),
        ),
    ];
    let policy = "apiVersion: causeway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: small}
spec: {targetRefs: [{kind: Gateway, name: web}], bodyLimit: 4Ki}
---
";
    let site = gateway(http, https, port::free()) + &routes.concat() + policy;
    write(dir, "site.yaml", &(site + &service("one", backend("one")) + &secrets(&authority)));
    let _running = Gateway::start(dir);
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let ask = |host: &str, path: &str, more: &[&str]| {
        let (name, url) = (format!("Host: {host}"), format!("http://127.0.0.1:{http}{path}"));
        let answer = curl(&[&["-H", &name, "-o", "/dev/null", &url], more].concat());
        answer.trim().to_owned()
    };
    let secure = |host: &str, more: &[&str]| {
        let (place, url) = (format!("{host}:{https}:127.0.0.1"), format!("https://{host}:{https}/"));
        let trusted = ["--cacert", ca.path().to_str().unwrap(), "--resolve", &place, "-o", "/dev/null", &url];
        curl(&[&trusted, more].concat()).trim().to_owned()
    };
    let good = || ask("good.test", "/", &[]) == "200" && secure("good.test", &[]) == "200";
    eventually("the good is served", PATIENCE, good);

    // What is said of each listener.
    for (listener, said) in [
        ("http", ["Programmed", "True", "Programmed"]),
        ("good", ["Programmed", "True", "Programmed"]),
        ("again", ["Conflicted", "True", "HostnameConflict"]),
        ("tcp", ["Conflicted", "True", "ProtocolConflict"]),
        ("strange", ["Accepted", "False", "UnsupportedProtocol"]),
        ("expired", ["causeway.dev/CertificateAgeing", "True", "Expired"]),
        ("other-key", ["ResolvedRefs", "False", "InvalidCertificateRef"]),
        ("unreadable", ["ResolvedRefs", "False", "InvalidCertificateRef"]),
        ("nowhere", ["ResolvedRefs", "False", "InvalidCertificateRef"]),
        ("foreign", ["ResolvedRefs", "False", "RefNotPermitted"]),
    ] {
        eventually(&format!("listener {listener}: {said:?}"), PATIENCE, || {
            let found = conditions(dir, "gateway.default.web", Some(listener));
            if found.contains(&said.map(ToOwned::to_owned)) { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }
    // Of each route.
    for (route, said) in [
        ("good", ["ResolvedRefs", "True", "ResolvedRefs"]),
        ("lost", ["ResolvedRefs", "False", "BackendNotFound"]),
        ("foreign", ["ResolvedRefs", "False", "RefNotPermitted"]),
        ("slow", ["Accepted", "True", "Accepted"]),
        ("vast", ["Accepted", "False", "UnsupportedValue"]),
        ("broken", ["Accepted", "False", "UnsupportedValue"]),
    ] {
        eventually(&format!("route {route}: {said:?}"), PATIENCE, || {
            let found = conditions(dir, &format!("httproute.default.{route}"), None);
            if found.contains(&said.map(ToOwned::to_owned)) { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }
    // One that is expired is shown: it is the client who refuses it.
    assert_eq!(secure("expired.test", &[]), "");
    assert_eq!(secure("expired.test", &["-k"]), "404");
    for host in ["other-key.test", "unreadable.test", "nowhere.test", "foreign.test"] {
        assert_eq!(secure(host, &["-k"]), "", "{host}");
    }
    for (host, status) in [("lost.test", "500"), ("foreign.test", "500"), ("nobody.test", "404")] {
        assert_eq!(ask(host, "/", &[]), status, "{host}");
    }

    // What clients send that is too much, or that costs too much.
    let head = format!("X-Large: {}", "x".repeat(100 << 10));
    assert_eq!(ask("good.test", "/", &["-H", &head]), "431");
    let body = "x".repeat(8 << 10);
    assert_eq!(ask("good.test", "/", &["--data-binary", &body]), "413");
    let began = Instant::now();
    assert_eq!(ask("slow.test", &format!("/{}", "a".repeat(30_000)), &[]), "404");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    // What speaks something else.
    assert_eq!(
        curl(&[
            "-k",
            "--resolve",
            &format!("good.test:{http}:127.0.0.1"),
            &format!("https://good.test:{http}/")
        ]),
        ""
    );
    let answer = say(https, b"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    for rubbish in [&b"\x16\x03\x01\xff\xff"[..], b"\0\0\0\0\r\n\r\n", b"\xff\xfe GET\n\n"] {
        for port in [http, https] {
            let answer = say(port, rubbish);
            assert!(!answer.starts_with(b"HTTP/1.1 2"), "{rubbish:?}");
        }
    }
    assert!(good());
}

#[test]
fn ten_thousand_routes_are_served_and_one_more_is_a_small_change() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (http, https) = (port::free(), port::free());
    let rule = "[{backendRefs: [{name: one, port: 80}]}]";
    let mut many = String::new();
    for number in 0..10_000 {
        let _ = write!(many, "{}", route(&format!("r{number}"), &format!("r{number}.test"), rule));
    }
    write(dir, "site.yaml", &(gateway(http, https, port::free()) + &service("one", backend("one"))));
    write(dir, "many.yaml", &many);
    let _running = Gateway::start(dir);
    let ask = |host: &str| {
        curl(&["-H", &format!("Host: {host}"), "-o", "/dev/null", &format!("http://127.0.0.1:{http}/")])
    };
    for host in ["r0.test", "r5000.test", "r9999.test"] {
        eventually(host, PATIENCE, || ask(host) == "200\n");
    }
    assert_eq!(ask("r10000.test"), "404\n");
    write(dir, "more.yaml", &route("more", "more.test", rule));
    eventually("one more is served", PATIENCE, || ask("more.test") == "200\n");
    assert_eq!(ask("r9999.test"), "200\n");
}
