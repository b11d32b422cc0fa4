//! TLS to the server as its administrator, with full control over the bytes inside.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use causeway_testkit::server::Server;
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Wire {
    address: String,
    config: Arc<ClientConfig>,
}

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: String,
}

impl Wire {
    pub fn new(server: &Server) -> Self {
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = KubeConfigOptions::default();
        let config = runtime.block_on(Config::from_custom_kubeconfig(kubeconfig, &options)).unwrap();
        // Only the first of the tests can install it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = config.rustls_client_config().unwrap();
        let address = server.url().trim_start_matches("https://").to_owned();
        Self { address, config: Arc::new(config) }
    }

    fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes without TLS; what comes back until the server hangs up.
    pub fn plain(&self, bytes: &[u8]) -> String {
        let mut stream = self.tcp();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Sends bytes within TLS; `None` if the server hangs up without an HTTP answer.
    pub fn send(&self, bytes: &[u8]) -> Option<Answer> {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let client = ClientConnection::new(self.config.clone(), name).unwrap();
        let mut stream = StreamOwned::new(client, self.tcp());
        // The server may refuse before it has read everything.
        let _ = stream.write_all(bytes).and_then(|()| stream.flush());
        let mut said = Vec::new();
        let mut piece = [0; 16 << 10];
        while !is_whole(&said) {
            match stream.read(&mut piece) {
                Ok(n) if n > 0 => said.extend_from_slice(&piece[..n]),
                _ => break,
            }
        }
        parse(&said)
    }

    /// Asks for another protocol and says something in it, and that this is all; what comes back until the server hangs up.
    pub fn upgrade(&self, head: &str, bytes: &[u8]) -> String {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let client = ClientConnection::new(self.config.clone(), name).unwrap();
        let mut stream = StreamOwned::new(client, self.tcp());
        // Who is not understood may be hung up on at any byte.
        let _ = stream.write_all(&[head.as_bytes(), bytes].concat()).and_then(|()| stream.flush());
        let (mut said, mut piece) = (Vec::new(), [0; 1024]);
        while head_and_body(&said).is_none() {
            match stream.read(&mut piece) {
                Ok(n) if n > 0 => said.extend_from_slice(&piece[..n]),
                _ => break,
            }
        }
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }

    pub fn request(&self, method: &str, path: &str, media: &str, body: &[u8]) -> Answer {
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        self.send(&bytes).unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "application/json", b"")
    }
}

fn head_and_body(said: &[u8]) -> Option<(String, &[u8])> {
    let end = said.windows(4).position(|w| w == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&said[..end]).to_ascii_lowercase(), &said[end + 4..]))
}

/// Whether all of the length that the head announces is there.
fn is_whole(said: &[u8]) -> bool {
    head_and_body(said).is_some_and(|(head, body)| {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        length.and_then(|l| l.trim().parse::<usize>().ok()).is_some_and(|length| body.len() >= length)
    })
}

fn parse(said: &[u8]) -> Option<Answer> {
    let (head, body) = head_and_body(said)?;
    let code = head.strip_prefix("http/1.")?.get(2..5)?.parse().ok()?;
    Some(Answer { code, body: String::from_utf8_lossy(body).into_owned() })
}
