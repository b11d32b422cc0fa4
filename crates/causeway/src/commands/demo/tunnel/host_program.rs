//! The program on the host that containers shall reach: an echo server on loopback, and nowhere else.

use std::net::Ipv4Addr;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Ends with the value.
pub(super) struct HostProgram {
    task: JoinHandle<()>,
    pub(super) port: u16,
}

impl HostProgram {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("can't listen on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    // A peer that goes away is its own business.
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        Ok(Self { task, port })
    }
}

impl Drop for HostProgram {
    fn drop(&mut self) {
        self.task.abort();
    }
}
