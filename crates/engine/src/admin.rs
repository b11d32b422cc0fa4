//! What an engine shows over HTTP, for loopback or a Unix socket: `/metrics`, `/ready`, `/config_dump`, `/clusters`,
//! `/listeners`, `/connections`.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use serde::Serialize;

use crate::engine::Handle;

/// The paths; the caller listens.
pub fn router(handle: Handle) -> Router {
    let [metrics_of, ready_of, plan_of, clusters_of, listeners_of] = [0; 5].map(|_| handle.clone());
    Router::new()
        .route("/metrics", get(async move || metrics(&metrics_of)))
        .route("/ready", get(async move || ready(&ready_of)))
        .route("/config_dump", get(async move || json(&plan_of.status().plan.as_deref())))
        .route("/clusters", get(async move || json(&clusters_of.clusters())))
        .route("/listeners", get(async move || json(&listeners_of.status().listeners)))
        .route("/connections", get(async move || json(&handle.connections().await)))
}

fn metrics(handle: &Handle) -> Response {
    const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut text = String::new();
    match encode(&mut text, handle.registry()) {
        Ok(()) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn ready(handle: &Handle) -> Response {
    let missing = handle.status().missing();
    if missing.is_empty() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join("; "))).into_response()
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec_pretty(value) {
        Ok(mut body) => {
            body.push(b'\n');
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
