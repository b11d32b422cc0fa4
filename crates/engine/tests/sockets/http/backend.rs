//! A server that keeps what it was asked, and clients that look at bytes.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::HandshakeKind;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{PATIENCE, Running};

/// A request as it arrived, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Lines as they were sent.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    /// Method and target.
    pub(crate) fn line(&self) -> &str {
        let line = self.head.lines().next().unwrap_or_default();
        line.rsplit_once(' ').map_or(line, |(line, _)| line)
    }

    /// The values of a field.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        values(&self.head, name)
    }
}

fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
}

type Answer = Arc<dyn Fn(&Asked) -> Vec<u8> + Send + Sync>;

pub(crate) struct HttpBackend {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<Mutex<usize>>,
    greeted: Arc<Mutex<Vec<Greeted>>>,
    task: tokio::task::JoinHandle<()>,
}

/// A TLS client as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeted {
    pub(crate) server_name: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) certificates: usize,
    pub(crate) resumed: bool,
}

impl HttpBackend {
    /// Answers everything with a name.
    pub(crate) async fn named(name: &'static str) -> Self {
        Self::answering(move |_| ok(name)).await
    }

    /// Answers with these bytes; no bytes close the connection.
    pub(crate) async fn answering(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start(None, answer).await
    }

    /// Answers everything with a name, in TLS.
    pub(crate) async fn secured(name: &'static str, config: Arc<rustls::ServerConfig>) -> Self {
        Self::start(Some(config.into()), move |_| ok(name)).await
    }

    pub(crate) async fn start(
        tls: Option<tokio_rustls::TlsAcceptor>,
        answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer: Answer = Arc::new(answer);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let greeted = Arc::new(Mutex::new(Vec::new()));
        let (kept, counted, met) = (Arc::clone(&asked), Arc::clone(&connections), Arc::clone(&greeted));
        let task = tokio::spawn(async move {
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *counted.lock().unwrap() += 1;
                let (kept, answer, met, tls) =
                    (Arc::clone(&kept), Arc::clone(&answer), Arc::clone(&met), tls.clone());
                serving.spawn(async move {
                    let Some(tls) = tls else { return serve(stream, kept, answer).await };
                    let Ok(stream) = tls.accept(stream).await else { return };
                    met.lock().unwrap().push(Greeted::of(stream.get_ref().1));
                    serve(stream, kept, answer).await;
                });
            }
        });
        Self { address, asked, connections, greeted, task }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The TLS clients that it shook hands with.
    pub(crate) fn greeted(&self) -> Vec<Greeted> {
        self.greeted.lock().unwrap().clone()
    }

    /// How many connections it took.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

impl Drop for HttpBackend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Greeted {
    fn of(session: &rustls::ServerConnection) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            server_name: session.server_name().map(str::to_owned),
            protocol: session.alpn_protocol().map(text),
            certificates: session.peer_certificates().map_or(0, <[_]>::len),
            resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    kept: Arc<Mutex<Vec<Asked>>>,
    answer: Answer,
) {
    let mut bytes = Vec::new();
    loop {
        let Some(asked) = read_message(&mut stream, &mut bytes).await else { return };
        let answer = answer(&asked);
        kept.lock().unwrap().push(asked);
        if answer.is_empty() || stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// An answer with a body.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Reads one message, with a body by length or in chunks; the rest stays in `bytes`.
async fn read_message(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        more(stream, bytes).await?;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    bytes.drain(..end);
    let mut body = Vec::new();
    if let Some(length) = values(&head, "content-length").first() {
        let length = length.parse().unwrap();
        while bytes.len() < length {
            more(stream, bytes).await?;
        }
        body.extend(bytes.drain(..length));
    } else if values(&head, "transfer-encoding") == ["chunked"] {
        loop {
            let end = loop {
                if let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
                    break end;
                }
                more(stream, bytes).await?;
            };
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
            bytes.drain(..end + 2);
            // What follows the last chunk ends with an empty line, and may be no more than that.
            while size == 0 && !bytes.starts_with(b"\r\n") {
                match bytes.windows(2).position(|two| two == b"\r\n") {
                    Some(end) => drop(bytes.drain(..end + 2)),
                    None => more(stream, bytes).await?,
                }
            }
            while bytes.len() < size + 2 {
                more(stream, bytes).await?;
            }
            body.extend(bytes.drain(..size));
            bytes.drain(..2);
            if size == 0 {
                break;
            }
        }
    }
    Some(Asked { head, body })
}

async fn more(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
    bytes.extend_from_slice(&buffer[..count]);
    Some(())
}

/// A client's connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) bytes: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(running: &Running) -> Self {
        Self { stream: running.connect("in").await, bytes: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next answer: its head and body.
    pub(crate) async fn answer(&mut self) -> (String, String) {
        let reading = read_message(&mut self.stream, &mut self.bytes);
        let answer = tokio::time::timeout(PATIENCE, reading).await.unwrap().expect("an answer");
        (answer.head, String::from_utf8_lossy(&answer.body).into_owned())
    }

    pub(crate) async fn ask(&mut self, bytes: impl AsRef<[u8]>) -> (String, String) {
        self.send(bytes).await;
        self.answer().await
    }

    /// Everything until the connection ends.
    pub(crate) async fn rest(mut self) -> String {
        let mut bytes = std::mem::take(&mut self.bytes);
        // A reset is an end, too.
        let _ = tokio::time::timeout(PATIENCE, self.stream.read_to_end(&mut bytes)).await.unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The status in a head.
pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

/// A request without a body.
pub(crate) fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// A plan with a listener `in` of these routes, and clusters by name.
pub(crate) fn plan(routes: &str, clusters: &[(&str, &[SocketAddr])]) -> String {
    let mut text = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    http:\n      routes:\n{routes}\nclusters:\n"
    );
    for (name, endpoints) in clusters {
        let endpoints: Vec<String> = endpoints.iter().map(|e| format!("{{address: '{e}'}}")).collect();
        writeln!(text, "- {{name: {name}, endpoints: [{}]}}", endpoints.join(", ")).unwrap();
    }
    text
}

/// Everything to one cluster.
pub(crate) fn all_to(endpoints: &[SocketAddr]) -> String {
    plan("      - {name: all, action: {forward: c}}", &[("c", endpoints)])
}
