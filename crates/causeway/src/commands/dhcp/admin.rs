//! `--admin`: where metrics, leases and state are shown, never beyond this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use causeway_agent::BoundedListener;
use causeway_dhcp::{Metrics, Server};
use causeway_engine::admin::{METRICS_TYPE, guarded};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, UnixListener};

use crate::parts::output;
use crate::parts::unix_socket;

/// The socket, before it is served.
pub(super) enum Admin {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

#[derive(Clone)]
struct Shown {
    server: Arc<Server>,
    registry: Arc<Registry>,
}

impl Admin {
    /// Opens the socket.
    pub(super) async fn open(at: &str) -> anyhow::Result<Self> {
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

    /// Serves it as long as the process runs.
    pub(super) fn start(self, server: Arc<Server>, metrics: &Metrics) {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let shown = Shown { server, registry: Arc::new(registry) };
        let router = Router::new()
            .route("/metrics", get(show_metrics))
            .route("/status", get(async |State(shown): State<Shown>| Json(shown.server.status())))
            .route("/leases", get(async |State(shown): State<Shown>| Json(shown.server.leases())))
            .route("/readyz", get(ready))
            .with_state(shown);
        match &self {
            Self::Tcp(listener) => {
                if let Ok(address) = listener.local_addr() {
                    output::line(format_args!("admin on http://{address}"));
                }
            }
            Self::Unix(_, path) => drop(output::line(format_args!("admin on {}", path.display()))),
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

async fn show_metrics(State(shown): State<Shown>) -> impl IntoResponse {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shown.registry) {
        Ok(()) => ([(CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn ready(State(shown): State<Shown>) -> impl IntoResponse {
    match shown.server.status().problem {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
    }
}
