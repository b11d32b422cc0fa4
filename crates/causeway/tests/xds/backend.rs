//! Servers that say their name to whoever connects and then repeat what they hear, and clients that ask by server name.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server that lives as long as the test program.
pub fn backend(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let _ = writeln!(stream, "{name}");
                let mut back = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut stream, &mut back);
            });
        }
    });
    address
}

/// A ClientHello as rustls makes it.
pub fn hello(name: Option<&str>) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    config.enable_sni = name.is_some();
    let server = ServerName::try_from(name.unwrap_or("none.test").to_owned()).unwrap();
    let mut bytes = Vec::new();
    ClientConnection::new(Arc::new(config), server).unwrap().write_tls(&mut bytes).unwrap();
    bytes
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    Some(stream)
}

/// Who answers a client that sends this first; empty if nobody.
pub fn who(port: u16, first: &[u8]) -> String {
    let Some(mut stream) = connect(port) else { return String::new() };
    let _ = stream.write_all(first);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line.trim().to_owned()
}

/// Everything that a client hears until the end.
pub fn heard(port: u16, first: &[u8]) -> Vec<u8> {
    let mut stream = connect(port).unwrap();
    stream.write_all(first).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// A connection that stays and can be asked whether it still works.
pub struct Held {
    stream: BufReader<TcpStream>,
}

impl Held {
    pub fn open(port: u16, name: &str) -> Self {
        let mut stream = connect(port).unwrap();
        let first = hello(Some(name));
        stream.write_all(&first).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let mut echoed = vec![0; first.len()];
        stream.read_exact(&mut echoed).unwrap();
        Self { stream }
    }

    pub fn works(&mut self) -> bool {
        let mut back = [0; 4];
        self.stream.get_mut().write_all(b"ping").is_ok()
            && self.stream.read_exact(&mut back).is_ok()
            && &back == b"ping"
    }
}
