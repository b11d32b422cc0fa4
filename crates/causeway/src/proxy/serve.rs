//! What a proxy shows over HTTP: health on the pod's address for the kubelet, state and metrics on loopback only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use causeway_engine::Handle;
use causeway_engine::admin::router;
use tokio::net::TcpListener;

use super::carrier::View;

pub async fn bind(address: IpAddr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let at = SocketAddr::new(address, port);
    TcpListener::bind(at)
        .await
        .with_context(|| format!("can't listen on {at}; choose another port with {flag}"))
}

/// Where state is shown: on one machine each pod has a loopback address of its own.
pub fn loopback(pod: IpAddr) -> IpAddr {
    if pod.is_loopback() { pod } else { Ipv4Addr::LOCALHOST.into() }
}

/// `/healthz` says that the process lives, `/ready` that traffic would pass.
pub async fn health(listener: TcpListener, view: View) {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/ready", get(async move || ready(&view)));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::warn!(%error, "health is no longer served");
    }
}

pub async fn admin(listener: TcpListener, handle: Handle) {
    if let Err(error) = axum::serve(listener, router(handle)).await {
        tracing::warn!(%error, "admin is no longer served");
    }
}

fn ready(view: &View) -> (StatusCode, String) {
    let missing = view.missing();
    if missing.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join("; ")))
}
