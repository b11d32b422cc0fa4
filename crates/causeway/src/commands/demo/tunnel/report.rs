//! What the checker in its container has found, read over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Report {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) error: Option<String>,
    pub(super) millis: u64,
}

impl Report {
    /// Asks the checker that reports on this port of the host; nothing while it can't be reached.
    pub(super) async fn ask(port: u16) -> Option<Self> {
        tokio::time::timeout(TIMEOUT, get(port)).await.ok()?.ok()
    }

    /// Whether the last round passed.
    pub(super) fn is_well(&self) -> bool {
        self.passed > 0 && self.error.is_none()
    }
}

async fn get(port: u16) -> anyhow::Result<Report> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: checker\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    ensure!(head.starts_with("HTTP/1.1 "), "the answer is {head}");
    Ok(serde_json::from_str(body)?)
}

/// A port of loopback that is free at the moment.
pub(super) async fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
