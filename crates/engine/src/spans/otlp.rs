//! Sends spans to a collector: OpenTelemetry's protocol over HTTP, as protobuf. What the collector does not take in time is
//! lost, and counted.

use std::time::Duration;

use bytes::Bytes;
use causeway_base::backoff::Backoff;
use causeway_ir::http::Scheme;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use prost::Message as _;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{Span, Spans};

/// Spans of one request to the collector.
const MOST: usize = 512;
/// How long spans are gathered.
const GATHER: Duration = Duration::from_secs(1);
/// For one request to the collector.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a collector that can't be reached, or asks for it, is tried again.
const RETRIES: u32 = 4;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));

/// Where a collector is.
#[derive(Debug, Clone)]
pub struct Collector {
    authority: String,
    path: String,
}

/// What is no collector.
#[derive(Debug, Error)]
pub enum Error {
    /// Not a URL of HTTP in clear text.
    #[error(
        "`{0}` is not the address of a collector: write http://HOST:4318; for one with TLS, run a collector in between"
    )]
    Unreachable(String),
}

/// Why spans were not taken.
#[derive(Debug, Error)]
enum Failed {
    #[error("it can't be reached")]
    Connect(#[source] std::io::Error),
    #[error("it did not answer")]
    Ask(#[source] hyper::Error),
    #[error("it took longer than {} s", PATIENCE.as_secs())]
    Late,
    #[error("it answered with {0}")]
    Status(u16),
}

impl Failed {
    /// Whether another try may do better, as the protocol says.
    fn is_worth_another_try(&self) -> bool {
        !matches!(self, Self::Status(status) if !matches!(status, 429 | 502..=504))
    }
}

impl Collector {
    /// Reads the address of a collector. Spans go to `/v1/traces` below it.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let unreachable = || Error::Unreachable(text.to_owned());
        let url: http::Uri = text.parse().map_err(|_| unreachable())?;
        let host = url.authority().filter(|_| url.scheme_str() == Some("http")).ok_or_else(unreachable)?;
        let port = host.port_u16().unwrap_or(80);
        let path = url.path().trim_end_matches('/');
        Ok(Self { authority: format!("{}:{port}", host.host()), path: format!("{path}/v1/traces") })
    }
}

/// Begins to send spans to a collector, in the name of a service.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn start(collector: Collector, service: String, share: f64) -> (Spans, JoinHandle<()>) {
    let (spans, spans_rx) = Spans::new(share);
    // Without a sending end of its own: that would be a reason to wait for more.
    let counts = Counts { lost: spans.lost.clone(), sent: spans.sent.clone() };
    (spans, tokio::spawn(run(collector, service, spans_rx, counts)))
}

struct Counts {
    lost: Counter,
    sent: Counter,
}

/// Sends what comes until nobody is left to make spans.
async fn run(collector: Collector, service: String, mut spans_rx: mpsc::Receiver<Span>, counts: Counts) {
    let mut batch = Vec::with_capacity(MOST);
    let mut is_told = false;
    while let Some(first) = spans_rx.recv().await {
        batch.push(first);
        // An error means that the time is over.
        let _ = timeout(GATHER, async {
            let mut room = MOST - batch.len();
            while room > 0 {
                match spans_rx.recv_many(&mut batch, room).await {
                    0 => break,
                    count => room -= count,
                }
            }
        })
        .await;
        let count = batch.len() as u64;
        let message = message(&service, batch.drain(..));
        match send(&collector, message.encode_to_vec()).await {
            Ok(()) => {
                counts.sent.inc_by(count);
                is_told = false;
            }
            Err(failed) => {
                counts.lost.inc_by(count);
                // Once for each time that it goes away.
                if !std::mem::replace(&mut is_told, true) {
                    let error = causeway_base::report::chain(&failed);
                    tracing::warn!(collector = collector.authority, error, "spans were not taken");
                }
            }
        }
    }
}

async fn send(collector: &Collector, body: Vec<u8>) -> Result<(), Failed> {
    let body = Bytes::from(body);
    let mut failures = 0;
    loop {
        let sent = match timeout(PATIENCE, post(collector, body.clone())).await {
            Ok(Ok(200..=299)) => return Ok(()),
            Ok(Ok(status)) => Failed::Status(status),
            Ok(Err(failed)) => failed,
            Err(_) => Failed::Late,
        };
        failures += 1;
        if failures > RETRIES || !sent.is_worth_another_try() {
            return Err(sent);
        }
        sleep(BACKOFF.delay(failures)).await;
    }
}

/// Asks once, on a connection of its own; the status of the answer.
async fn post(collector: &Collector, body: Bytes) -> Result<u16, Failed> {
    let stream = TcpStream::connect(&collector.authority).await.map_err(Failed::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Failed::Ask)?;
    let request = Request::post(&collector.path)
        .header(header::HOST, &collector.authority)
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .header(header::CONNECTION, "close")
        .body(Full::new(body));
    // What a collector's address is made of was read as a URL.
    let Ok(request) = request else { return Ok(400) };
    let asking = sender.send_request(request);
    tokio::pin!(asking);
    let answered = tokio::select! {
        answered = &mut asking => answered,
        // A connection that ends with its answer has handed it over before: the same spans are not sent twice.
        ended = connection => match ended {
            Ok(()) => asking.await,
            Err(error) => Err(error),
        },
    };
    answered.map(|answer| answer.status().as_u16()).map_err(Failed::Ask)
}

/// Spans in the words of the protocol.
fn message(service: &str, spans: impl Iterator<Item = Span>) -> wire::Request {
    let resource = wire::Resource { attributes: vec![wire::text("service.name", service)] };
    let scope = wire::Scope { name: "causeway".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = wire::ScopeSpans { scope: Some(scope), spans: spans.map(span).collect() };
    wire::Request {
        resource_spans: vec![wire::ResourceSpans { resource: Some(resource), scope_spans: vec![spans] }],
    }
}

fn span(span: Span) -> wire::Span {
    const SERVER: i32 = 2;
    const ERROR: i32 = 2;
    let scheme = match span.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let mut attributes = vec![
        wire::text("http.request.method", &span.method),
        wire::text("url.scheme", scheme),
        wire::text("url.path", &span.path),
        wire::text("server.address", &span.host),
        wire::text("client.address", &span.client.to_string()),
        wire::number("http.response.status_code", span.status.into()),
        wire::text("causeway.listener", &span.listener),
        wire::number("causeway.attempts", span.attempts.into()),
    ];
    let name = match &span.route {
        Some(route) => format!("{} {route}", span.method),
        None => span.method.to_string(),
    };
    attributes.extend(span.route.map(|route| wire::text("causeway.route", &route)));
    attributes.extend(span.cluster.map(|cluster| wire::text("causeway.cluster", &cluster)));
    attributes.extend(span.endpoint.map(|endpoint| wire::text("causeway.endpoint", &endpoint)));
    wire::Span {
        trace_id: span.trace.id.into(),
        id: span.trace.span.into(),
        parent_span_id: span.trace.parent.map(Vec::from).unwrap_or_default(),
        name,
        kind: SERVER,
        start_time_unix_nano: span.times.0,
        end_time_unix_nano: span.times.1,
        attributes,
        status: (span.status >= 500).then_some(wire::Status { code: ERROR }),
    }
}

/// The messages of `opentelemetry.proto`, as far as they are sent.
mod wire {
    use prost::{Message, Oneof};

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Request {
        #[prost(message, repeated, tag = "1")]
        pub(super) resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ResourceSpans {
        #[prost(message, optional, tag = "1")]
        pub(super) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(super) scope_spans: Vec<ScopeSpans>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ScopeSpans {
        #[prost(message, optional, tag = "1")]
        pub(super) scope: Option<Scope>,
        #[prost(message, repeated, tag = "2")]
        pub(super) spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Scope {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) version: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) id: Vec<u8>,
        #[prost(bytes = "vec", tag = "4")]
        pub(super) parent_span_id: Vec<u8>,
        #[prost(string, tag = "5")]
        pub(super) name: String,
        #[prost(int32, tag = "6")]
        pub(super) kind: i32,
        #[prost(fixed64, tag = "7")]
        pub(super) start_time_unix_nano: u64,
        #[prost(fixed64, tag = "8")]
        pub(super) end_time_unix_nano: u64,
        #[prost(message, repeated, tag = "9")]
        pub(super) attributes: Vec<KeyValue>,
        #[prost(message, optional, tag = "15")]
        pub(super) status: Option<Status>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Status {
        #[prost(int32, tag = "3")]
        pub(super) code: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct KeyValue {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(message, optional, tag = "2")]
        value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct AnyValue {
        #[prost(oneof = "Value", tags = "1, 3")]
        value: Option<Value>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    enum Value {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(int64, tag = "3")]
        Number(i64),
    }

    pub(super) fn text(key: &str, value: &str) -> KeyValue {
        attribute(key, Value::Text(value.to_owned()))
    }

    pub(super) fn number(key: &str, value: i64) -> KeyValue {
        attribute(key, Value::Number(value))
    }

    fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_url_of_http() {
        for (text, authority, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", "/v1/traces"),
            ("http://otel/base/", "otel:80", "/base/v1/traces"),
            ("http://[::1]:4318/", "[::1]:4318", "/v1/traces"),
        ] {
            let read = Collector::parse(text).unwrap();
            assert_eq!((read.authority.as_str(), read.path.as_str()), (authority, path), "{text}");
        }
        for text in ["https://a:4318", "a:4318", "", "/v1/traces", "grpc://a"] {
            let error = Collector::parse(text).unwrap_err().to_string();
            assert!(error.contains("http://HOST:4318"), "{text}: {error}");
        }
    }
}
