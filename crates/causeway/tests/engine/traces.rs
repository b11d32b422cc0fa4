//! Spans of requests, read by OpenTelemetry's own definitions.

use std::time::{SystemTime, UNIX_EPOCH};

use causeway_testkit::environment;
use serde_json::Value;

use super::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A server that answers each connection with 200, and says what it was asked on a channel.
fn backend() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked_tx, asked_rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap();
            let _ = asked_tx.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (address, asked_rx)
}

fn ask(address: SocketAddr, path: &str, lines: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn plan(backend: SocketAddr) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    write!(
        file,
        "listeners: [{{name: web, bind: '127.0.0.1:0', protocol: {{http: {{routes: [\
         {{name: all, action: {{forward: c}}}},\
         {{name: down, matches: [{{path: {{prefix: /down}}}}], action: {{forward: none}}}}]}}}}}}]\n\
         clusters: [{{name: c, endpoints: [{{address: '{backend}'}}]}}, {{name: none}}]\n"
    )
    .unwrap();
    file
}

struct Collector {
    child: Child,
    lines: BufReader<ChildStdout>,
    url: String,
}

impl Collector {
    fn start(python: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/collector.py");
        let mut child = Command::new(python).arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Self { child, lines, url: format!("http://127.0.0.1:{}", port.trim()) }
    }

    fn span(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "the collector gave up");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_are_spans_of_the_traces_that_they_belong_to() {
    let Some(python) = environment::python("opentelemetry.proto") else { return };
    let mut collector = Collector::start(&python);
    let (backend, asked_rx) = backend();
    let plan = plan(backend);
    let url = collector.url.clone();
    let flags = ["--otlp", &url, "--otlp-service", "shop"];
    let mut engine = Engine::new(plan.path(), &flags);
    let address = engine.address("web");
    let told = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\ntracestate: a=b\r\n");
    assert!(ask(address, "/one?secret=1", &told).starts_with("HTTP/1.1 200"));
    let head = asked_rx.recv_timeout(PATIENCE).unwrap();
    // What the collector turned away at first comes again.
    let span = collector.span();
    let passed_on = format!("00-{TRACE}-{}-01", span["span"].as_str().unwrap());
    assert_eq!(header(&head, "traceparent"), Some(passed_on.as_str()), "{head}");
    assert_eq!(header(&head, "tracestate"), Some("a=b"));
    for (field, expected) in [
        ("trace", TRACE),
        ("parent", "b7ad6b7169203331"),
        ("name", "GET all"),
        ("service", "shop"),
        ("scope", "causeway"),
    ] {
        assert_eq!(span[field], expected, "{span}");
    }
    assert_eq!((&span["kind"], &span["status"]), (&2.into(), &0.into()));
    let attributes = &span["attributes"];
    for (key, expected) in [
        ("http.request.method", "GET".into()),
        ("url.path", "/one".into()),
        ("url.scheme", "http".into()),
        ("server.address", "a.test".into()),
        ("client.address", "127.0.0.1".into()),
        ("http.response.status_code", 200.into()),
        ("causeway.route", "all".into()),
        ("causeway.cluster", "c".into()),
        ("causeway.endpoint", backend.to_string().into()),
        ("causeway.attempts", Value::from(1)),
    ] {
        assert_eq!(attributes[key], expected, "{key}: {span}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let age = now - span["start"].as_u64().unwrap();
    assert!(age < 120_000_000_000 && span["nanos"].as_u64().unwrap() < 60_000_000_000, "{span}");
    // Of a trace that nobody wants to see, and of no trace at all, there are none; what was said is passed on.
    let unwanted = told.replace("-01\r\n", "-00\r\n");
    assert!(ask(address, "/two", &unwanted).starts_with("HTTP/1.1 200"));
    let head = asked_rx.recv_timeout(PATIENCE).unwrap();
    assert!(header(&head, "traceparent").unwrap().ends_with("-b7ad6b7169203331-00"), "{head}");
    assert!(ask(address, "/three", "").starts_with("HTTP/1.1 200"));
    assert_eq!(header(&asked_rx.recv_timeout(PATIENCE).unwrap(), "traceparent"), None);
    // An error is one, and the last spans are sent before the process ends.
    assert!(ask(address, "/down", &told).starts_with("HTTP/1.1 503"));
    causeway_testkit::server::signal(engine.child.id(), "TERM");
    let last = collector.span();
    assert_eq!((&last["name"], &last["status"]), (&"GET down".into(), &2.into()), "{last}");
}

#[test]
fn nobody_waits_for_a_collector_that_is_gone() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (backend, asked_rx) = backend();
    let plan = plan(backend);
    let url = format!("http://{nobody}");
    let admin = tempfile::tempdir().unwrap();
    let admin = admin.path().join("admin.sock");
    let flags = ["--otlp", &url, "--otlp-share", "1", "--admin", admin.to_str().unwrap()];
    let mut engine = Engine::new(plan.path(), &flags);
    let address = engine.address("web");
    for _ in 0..20 {
        assert!(ask(address, "/", "").starts_with("HTTP/1.1 200"));
        let head = asked_rx.recv_timeout(PATIENCE).unwrap();
        assert!(header(&head, "traceparent").is_some_and(|told| told.ends_with("-01")), "{head}");
    }
    eventually("the spans are lost", PATIENCE, || {
        let mut stream = std::os::unix::net::UnixStream::connect(&admin).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.contains("causeway_spans_lost_total 20")
    });
}

#[test]
fn what_is_no_collector_is_told() {
    let plan = plan(SocketAddr::from(([127, 0, 0, 1], 1)));
    for (flags, said) in [
        (&["--otlp", "https://collector:4318"][..], "run a collector in between"),
        (&["--otlp", "http://c:4318", "--otlp-share", "2"], "from 0 for none to 1 for all"),
    ] {
        let mut command = Command::new(program());
        let ran = command.args(["engine", "--config"]).arg(plan.path()).args(flags).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && text.contains(said), "{text}");
    }
}
