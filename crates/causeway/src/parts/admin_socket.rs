//! `--admin`: where metrics and state are shown, never beyond this machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use axum::Router;
use causeway_agent::BoundedListener;
use causeway_engine::admin::guarded;
use tokio::net::{TcpListener, UnixListener};

use super::output::Output;
use super::unix_socket;

/// The socket, before it is served.
pub(crate) enum AdminSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl AdminSocket {
    /// Opens the socket: a loopback address and port, or a path.
    pub(crate) async fn open(at: &str) -> anyhow::Result<Self> {
        let Ok(address) = at.parse::<SocketAddr>() else {
            let path = unix_socket::path(at)?;
            let listener = unix_socket::listen(&path).context("admin can't be served")?;
            return Ok(Self::Unix(listener, path));
        };
        anyhow::ensure!(
            address.ip().is_loopback(),
            "admin shows every client to whoever asks: use a loopback address like 127.0.0.1:{}, or a Unix socket",
            address.port()
        );
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("can't serve admin on {at}; choose another with --admin"))?;
        Ok(Self::Tcp(listener))
    }

    /// Serves these paths as long as the process runs.
    pub(crate) fn start(self, router: Router, out: Output) {
        match &self {
            Self::Tcp(listener) => {
                if let Ok(address) = listener.local_addr() {
                    out.line(format_args!("admin on http://{address}"));
                }
            }
            Self::Unix(_, path) => drop(out.line(format_args!("admin on {}", path.display()))),
        }
        tokio::spawn(async {
            let served = match self {
                Self::Tcp(listener) => axum::serve(BoundedListener::new(listener), guarded(router)).await,
                Self::Unix(listener, _) => axum::serve(BoundedListener::new(listener), router).await,
            };
            if let Err(error) = served {
                tracing::warn!(%error, "admin is no longer served");
            }
        });
    }
}
