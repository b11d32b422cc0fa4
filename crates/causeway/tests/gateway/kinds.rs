//! Every kind of route, listeners of others and TLS to backends, from files and through the wire.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::port;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::backend::{Authority, backend, curl, indented, service};
use crate::files::{Gateway, conditions};

const HOST: &str = "pass.test";

/// A server that answers one request in each connection, in TLS for the host; its port.
fn sealed(authority: &Authority) -> u16 {
    let (certificate, key) = authority.certificate(HOST, |_| {});
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(StreamOwned::new(session, stream));
                let mut line = String::new();
                // Who is not content with the certificate leaves.
                while line != "\r\n" {
                    line.clear();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                }
                let stream = reader.get_mut();
                let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 7\r\n\r\nsealed\n";
                let _ = stream.write_all(answer).and_then(|()| stream.flush());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    port
}

/// A server that sends datagrams back; its port.
fn echo() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = [0; 1500];
        while let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..count], from);
        }
    });
    port
}

/// What comes back for a datagram, if anything does soon.
fn ask(port: u16) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket.send_to(b"ping", ("127.0.0.1", port)).unwrap();
    let mut bytes = [0; 16];
    let count = socket.recv(&mut bytes).ok()?;
    Some(bytes[..count].to_vec())
}

/// The ports of a site, by what is there.
struct Ports {
    pass: u16,
    ends: u16,
    tcp: u16,
    udp: u16,
    set: u16,
}

fn routes(ports: &Ports) -> String {
    let Ports { pass, ends, tcp, udp, set } = ports;
    let api = "apiVersion: gateway.networking.k8s.io/v1";
    let route = |kind: &str, name: &str, parent: &str, fields: &str, rule: &str| {
        format!(
            "---\n{api}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  parentRefs: [{parent}]\n{fields}  rules: [{rule}]\n"
        )
    };
    let at = |section: &str| format!("{{name: web, sectionName: {section}}}");
    let to = |name: &str| format!("{{backendRefs: [{{name: {name}, port: 80}}]}}");
    let names = format!("  hostnames: [{HOST}]\n");
    let own = "{kind: ListenerSet, name: more}";
    let mut text = format!(
        "{api}
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: causeway
  allowedListeners: {{namespaces: {{from: Same}}}}
  listeners:
  - {{name: pass, port: {pass}, protocol: TLS, tls: {{mode: Passthrough}}}}
  - {{name: ends, port: {ends}, protocol: TLS, hostname: {HOST}, tls: {{certificateRefs: [{{name: site}}]}}}}
  - {{name: tcp, port: {tcp}, protocol: TCP}}
  - {{name: udp, port: {udp}, protocol: UDP}}
---
{api}
kind: ListenerSet
metadata: {{name: more}}
spec:
  parentRef: {{name: web}}
  listeners: [{{name: http, port: {set}, protocol: HTTP}}]
---
{api}
kind: BackendTLSPolicy
metadata: {{name: sealed}}
spec:
  targetRefs: [{{group: '', kind: Service, name: sealed}}]
  validation: {{hostname: {HOST}, caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}]}}
"
    );
    text += &route("TLSRoute", "pass", &at("pass"), &names, &to("raw"));
    text += &route("TLSRoute", "ends", &at("ends"), &names, &to("open"));
    text += &route("TCPRoute", "tcp", &at("tcp"), "", &to("open"));
    text += &route("UDPRoute", "udp", &at("udp"), "", &to("echo"));
    text + &route("HTTPRoute", "http", own, "", &to("sealed"))
}

fn authorities(authority: &Authority) -> String {
    let pem = indented(authority.pem());
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ca}}\ndata:\n  ca.crt: |\n{pem}")
}

fn write(dir: &Path, file: &str, text: &str) {
    std::fs::write(dir.join(file), text).unwrap();
}

#[test]
fn tls_tcp_udp_listener_sets_and_tls_to_backends_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let authority = Authority::new();
    let ports = Ports {
        pass: port::free(),
        ends: port::free(),
        tcp: port::free(),
        udp: port::free(),
        set: port::free(),
    };
    let secret = sealed(&authority);
    let datagrams = service("echo", echo()).replace("port: ", "protocol: UDP, port: ");
    let services =
        [service("raw", secret), service("sealed", secret), service("open", backend("open")), datagrams];
    write(dir, "services.yaml", &services.concat());
    write(dir, "routes.yaml", &routes(&ports));
    write(dir, "secret.yaml", &authority.secret("site", HOST, 7));
    write(dir, "ca.yaml", &authorities(&authority));
    let _running = Gateway::start(dir);
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let secure = |port: u16| {
        let (place, url) = (format!("{HOST}:{port}:127.0.0.1"), format!("https://{HOST}:{port}/"));
        curl(&["--cacert", ca.path().to_str().unwrap(), "--resolve", &place, &url])
    };
    let plain = |port: u16| curl(&[&format!("http://127.0.0.1:{port}/")]);
    eventually("TLS goes through as it is", PATIENCE, || secure(ports.pass) == "sealed\n200\n");
    eventually("TLS ends, and bytes go on", PATIENCE, || secure(ports.ends).starts_with("open GET / "));
    eventually("bytes go through", PATIENCE, || plain(ports.tcp).starts_with("open GET / "));
    eventually("datagrams go and come", PATIENCE, || ask(ports.udp).as_deref() == Some(b"ping"));
    eventually("a listener of a set leads to TLS", PATIENCE, || plain(ports.set) == "sealed\n200\n");
    let all =
        ["tlsroute.default.pass", "tlsroute.default.ends", "tcproute.default.tcp", "udproute.default.udp"];
    let more = ["listenerset.default.more", "backendtlspolicy.default.sealed", "httproute.default.http"];
    eventually("every status is good", PATIENCE, || {
        let is_good = |object: &&&str| {
            let said = conditions(dir, object, None);
            said.iter().any(|[kind, ..]| kind == "Accepted")
                && said.iter().all(|[_, status, _]| status == "True")
        };
        let bad = all.iter().chain(&more).find(|object| !is_good(object));
        bad.map_or(Ok(()), |object| Err(format!("{object}: {:?}", conditions(dir, object, None))))
    });

    // What a backend shows that nobody trusts gets no request; all else goes on.
    write(dir, "ca.yaml", &authorities(&Authority::new()));
    eventually("it is not asked", PATIENCE, || plain(ports.set).trim_end().ends_with("502"));
    assert_eq!(secure(ports.pass), "sealed\n200\n");
    // A route that goes leaves its port to nobody.
    let without = routes(&ports).replace("kind: TCPRoute", "kind: Nothing");
    write(dir, "routes.yaml", &without);
    eventually("nobody answers", PATIENCE, || plain(ports.tcp).is_empty());
    assert_eq!(ask(ports.udp).as_deref(), Some(&b"ping"[..]));
}
