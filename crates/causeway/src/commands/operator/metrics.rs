//! The operator's `/metrics`, `/healthz` and `/readyz`, over plain HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use causeway_agent::BoundedListener;
use causeway_controllers::framework::health::Health;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(super) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("can't serve metrics on {address}; choose another with --observe ADDR:PORT"))
}

pub(super) async fn serve(
    listener: TcpListener,
    registry: Registry,
    health: Health,
    shutdown: CancellationToken,
) {
    let registry = Arc::new(registry);
    let live = health.clone();
    let router = Router::new()
        .route("/metrics", get(async move || metrics(&registry)))
        .route("/healthz", get(async move || answer(live.dead())))
        .route("/readyz", get(async move || answer(health.missing())));
    let stop = async move { shutdown.cancelled().await };
    if let Err(error) = axum::serve(BoundedListener::new(listener), router).with_graceful_shutdown(stop).await
    {
        tracing::warn!(%error, "metrics and health are no longer served");
    }
}

fn metrics(registry: &Registry) -> Result<String, StatusCode> {
    let mut text = String::new();
    encode(&mut text, registry).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(text)
}

fn answer(missing: Vec<String>) -> (StatusCode, String) {
    if missing.is_empty() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join(", ")))
    }
}
