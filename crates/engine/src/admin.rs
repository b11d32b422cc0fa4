//! What an engine shows over HTTP, for loopback or a Unix socket: `/metrics` (also as `/stats/prometheus`), `/ready`,
//! `/config_dump`, `/clusters`, `/listeners`, `/connections`, and `/logging`, which also changes the level.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use serde::Serialize;

use crate::engine::Handle;

/// Shows the log filter, after changing it if there is a new one; the error says what is wrong with that.
pub type LogLevel = Arc<dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync>;

/// Adds `/logging` to the paths.
pub fn with_logging(router: Router, log_level: LogLevel) -> Router {
    let (shown, changed) = (Arc::clone(&log_level), log_level);
    let change = async move |RawQuery(query): RawQuery| logging(&changed, query.as_deref());
    router.route("/logging", get(async move || logging(&shown, None)).put(change.clone()).post(change))
}

/// The paths; the caller listens.
pub fn router(handle: Handle) -> Router {
    let [metrics_of, stats_of, ready_of, plan_of, clusters_of, listeners_of] = [0; 6].map(|_| handle.clone());
    Router::new()
        .route("/metrics", get(async move || metrics(&metrics_of)))
        .route("/stats/prometheus", get(async move || metrics(&stats_of)))
        .route("/ready", get(async move || ready(&ready_of)))
        .route("/config_dump", get(async move || json(&plan_of.status().plan.as_deref())))
        .route("/clusters", get(async move || json(&clusters_of.clusters())))
        .route("/listeners", get(async move || json(&listeners_of.status().listeners)))
        .route("/connections", get(async move || json(&handle.connections().await)))
}

/// Takes `level=…`, as in `POST /logging?level=debug`.
fn logging(log_level: &LogLevel, query: Option<&str>) -> Response {
    let level = query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("level=")));
    if query.is_some() && level.is_none() {
        return (StatusCode::BAD_REQUEST, "say which level, like /logging?level=debug\n").into_response();
    }
    match log_level(level) {
        Ok(filter) => format!("{filter}\n").into_response(),
        Err(problem) => (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response(),
    }
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
