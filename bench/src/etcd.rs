//! etcd with its default settings, and as much of its gRPC as one `Put` needs.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{BufMut, Bytes, BytesMut};
use http::Request;
use http_body_util::Full;
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::http2::Connection;
use crate::process::Process;

const READY_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// A running etcd that answers.
pub(crate) struct Etcd {
    pub(crate) process: Process,
    pub(crate) endpoint: Endpoint,
}

/// Where an etcd is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint(SocketAddr);

impl Etcd {
    pub(crate) async fn start(program: &Path, data_dir: &Path) -> anyhow::Result<Self> {
        let log = std::fs::File::create(data_dir.with_extension("log")).context("can't make a log file")?;
        let (client, peer) = (free_port()?, free_port()?);
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let process = Process::start(
            Command::new(program)
                .arg("--data-dir")
                .arg(data_dir)
                .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
                .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
                .args(["--initial-cluster", &format!("default={peer_url}")])
                .stdout(Stdio::null())
                .stderr(log),
        )?;
        let endpoint = Endpoint(client);
        let deadline = Instant::now() + READY_LIMIT;
        while let Err(error) = endpoint.try_put().await {
            if Instant::now() > deadline {
                return Err(error.context("etcd did not answer in time"));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(Self { process, endpoint })
    }
}

/// What `etcd --version` says first.
pub(crate) async fn version(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .await
        .context("etcd is not installed (Debian: apt-get install etcd-server)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim_start_matches("etcd Version: ").to_owned())
}

fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

impl Endpoint {
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let tcp = TcpStream::connect(self.0).await.context("can't connect")?;
        tcp.set_nodelay(true)?;
        Connection::over(tcp).await
    }

    async fn try_put(&self) -> anyhow::Result<()> {
        self.put(&mut self.connect().await?, "bench/ready", b"yes").await
    }

    pub(crate) async fn put(
        &self,
        connection: &mut Connection,
        key: &str,
        value: &[u8],
    ) -> anyhow::Result<()> {
        let request = Request::builder()
            .method("POST")
            .uri(format!("http://{}/etcdserverpb.KV/Put", self.0))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(put_request(key.as_bytes(), value)))
            .expect("a request from valid parts");
        let answer = connection.call(request).await?.expect(200)?;
        let status = answer.trailers.get("grpc-status").or_else(|| answer.headers.get("grpc-status"));
        match status.map(http::HeaderValue::as_bytes) {
            Some(b"0") => Ok(()),
            other => bail!("etcd refused a put: status {other:?}"),
        }
    }
}

/// A `PutRequest` (key = 1, value = 2) behind gRPC's prefix: not compressed, length.
fn put_request(key: &[u8], value: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(key.len() + value.len() + 16);
    for (field, bytes) in [(1_u8, key), (2, value)] {
        message.put_u8(field << 3 | 2);
        varint(&mut message, bytes.len());
        message.put_slice(bytes);
    }
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(&message);
    framed.freeze()
}

fn varint(out: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_framed_as_grpc_wants_it() {
        let bytes = put_request(b"k", &[7; 300]);
        assert_eq!(&bytes[..5], [0, 0, 0, 1, 50], "prefix with the length 306");
        assert_eq!(&bytes[5..11], [0x0a, 1, b'k', 0x12, 0xac, 0x02]);
        assert_eq!(bytes.len(), 5 + 306);
    }
}
