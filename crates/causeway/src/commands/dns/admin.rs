//! `--admin`: `/metrics`, `/ready`, and as JSON `/listeners`, `/upstreams` and `/views`.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use causeway_dns::Handle;
use causeway_engine::admin::METRICS_TYPE;
use prometheus_client::encoding::text::encode;
use serde::Serialize;

/// The paths.
pub(super) fn router(handle: Handle) -> Router {
    let [metrics_of, ready_of, upstreams_of, listeners_of] = [0; 4].map(|_| handle.clone());
    Router::new()
        .route("/metrics", get(async move || metrics(&metrics_of)))
        .route("/ready", get(async move || ready(&ready_of)))
        .route("/upstreams", get(async move || json(&upstreams_of.status().upstreams)))
        .route("/listeners", get(async move || json(&listeners_of.status().listeners)))
        .route("/views", get(async move || json(&handle.status().views)))
}

fn metrics(handle: &Handle) -> Response {
    let mut text = String::new();
    match encode(&mut text, handle.registry()) {
        Ok(()) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
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
