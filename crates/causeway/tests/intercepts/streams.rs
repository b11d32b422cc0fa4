//! Connections that stay open: servers that keep them, and clients that see whether one is cut.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::world::World;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What a server does with each connection.
pub fn serve(at: (&str, u16), each: impl Fn(TcpStream) + Send + Sync + Clone + 'static) {
    let listener = TcpListener::bind(at).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = each.clone();
            std::thread::spawn(move || each(stream));
        }
    });
}

/// Keeps a connection: answers each request with a name, and takes the other protocol where one asks for that.
pub fn keep(mut stream: TcpStream, name: &str) {
    while let Ok(head) = head(&mut stream) {
        if head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n") {
            return upgraded(stream);
        }
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Says in the other protocol what it hears.
fn upgraded(mut stream: TcpStream) {
    let _ = stream
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    let mut heard = [0; 64];
    while let Ok(count @ 1..) = stream.read(&mut heard) {
        let _ = stream.write_all(&heard[..count]);
    }
}

/// A Deployment and a Service of this name, whose only pod keeps its connections: the server is here, at the pod's address. Gives
/// back the address of the Service.
pub fn talking(world: &World, name: &'static str) -> String {
    let objects = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - {{name: app, image: 'causeway.dev/causeway:0.1.0', args: [echo, --listen, '$(POD_IP):9000'],
         ports: [{{name: http, containerPort: 8080}}],
         env: [{{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{selector: {{app: {name}}}, ports: [{{name: http, port: 80, targetPort: http}}]}}
"
    );
    world.kubectl.apply(&objects).ok();
    world.kubectl.ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"]);
    let label = format!("app={name}");
    let path = "jsonpath={.items[0].status.podIP}";
    let pod = world.kubectl.ok(&["get", "pods", "-l", &label, "-o", path]);
    serve((&pod, 8080), move |stream| keep(stream, name));
    world.address(name)
}

/// An open WebSocket, as far as those between can tell.
pub struct Socket(TcpStream);

impl Socket {
    pub fn open(address: &str, headers: &[&str]) -> Self {
        let mut stream = connect(address).unwrap();
        let own = ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"];
        let lines = own.iter().chain(headers).copied().collect::<Vec<_>>().join("\r\n");
        let request = format!(
            "GET /ws HTTP/1.1\r\nhost: {address}\r\n{lines}\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let head = head(&mut stream).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        Self(stream)
    }

    /// Says a word, and hears it again; fails where it was cut.
    pub fn echoes(&mut self, word: &[u8]) -> io::Result<()> {
        self.0.write_all(word)?;
        let mut heard = vec![0; word.len()];
        self.0.read_exact(&mut heard)?;
        assert_eq!(heard, word);
        Ok(())
    }
}

/// A client that keeps its connection until it is told to ask elsewhere.
pub struct Client {
    address: String,
    stream: Option<TcpStream>,
    /// How many connections it has had.
    pub opened: usize,
}

impl Client {
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None, opened: 0 }
    }

    /// Asks once more, and says who answered; fails where the connection was cut.
    pub fn ask(&mut self) -> io::Result<String> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            self.opened += 1;
            connect(&self.address)?
        };
        stream.write_all(format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", self.address).as_bytes())?;
        let head = head(&mut stream)?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or_else(|| panic!("an answer of some length: {head}"))];
        stream.read_exact(&mut body)?;
        if !head.contains("\r\nconnection: close\r\n") {
            self.stream = Some(stream);
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((address, 80))?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Reads as far as the end of a head.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut one = [0];
        stream.read_exact(&mut one)?;
        head.push(one[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
