//! `--admin`: `/metrics`, `/readyz`, and as JSON `/status` and `/leases`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use causeway_dhcp::{Metrics, Server};
use causeway_engine::admin::METRICS_TYPE;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::registry::Registry;

#[derive(Clone)]
struct Shown {
    server: Arc<Server>,
    registry: Arc<Registry>,
}

/// The paths.
pub(super) fn router(server: Arc<Server>, metrics: &Metrics) -> Router {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let shown = Shown { server, registry: Arc::new(registry) };
    Router::new()
        .route("/metrics", get(show_metrics))
        .route("/status", get(async |State(shown): State<Shown>| Json(shown.server.status())))
        .route("/leases", get(async |State(shown): State<Shown>| Json(shown.server.leases())))
        .route("/readyz", get(ready))
        .with_state(shown)
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
