//! What an engine shows over HTTP, for loopback or a Unix socket: `/metrics` (also as `/stats/prometheus`), `/ready`,
//! `/config_dump`, `/clusters`, `/listeners`, `/connections`, and `/logging`, which also changes the level.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, Request};
use axum::http::header::HeaderName;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
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

/// Keeps browsers out, for paths that are served on an address: a page of anybody's could ask them to send a request to
/// loopback, or could point its own name there.
pub fn guarded(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| match refused(request.headers()) {
        Some(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
        None => next.run(request).await,
    }))
}

/// Why a request is not one of a program or person at this machine.
fn refused(headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(header::ORIGIN) {
        return Some("a web page may not ask here: use curl, or any other program that sends no Origin");
    }
    let host = text(header::HOST).and_then(|host| host.parse::<Authority>().ok());
    let is_here = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse::<IpAddr>().is_ok()
    });
    (!is_here).then_some("the Host header names another host: ask by an address, like http://127.0.0.1:9901")
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

/// The media type of [`metrics_text`].
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of an engine; none if they can't be written.
pub fn metrics_text(handle: &Handle) -> Option<String> {
    let mut text = String::new();
    encode(&mut text, handle.registry()).ok().map(|()| text)
}

fn metrics(handle: &Handle) -> Response {
    match metrics_text(handle) {
        Some(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_kept_out_and_programs_are_not() {
        let asked = |pairs: &[(HeaderName, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            refused(&pairs.collect())
        };
        for host in ["127.0.0.1:9901", "[::1]:9901", "localhost:9901", "127.3.0.9"] {
            assert_eq!(asked(&[(header::HOST, host)]), None, "{host}");
            let page = [(header::HOST, host), (header::ORIGIN, "http://evil.test")];
            assert!(asked(&page).is_some(), "{host}");
            assert!(asked(&[(header::HOST, host), (header::ORIGIN, "null")]).is_some(), "{host}");
        }
        // A name of the page's own that leads to loopback.
        assert!(asked(&[(header::HOST, "evil.test:9901")]).is_some());
        assert!(asked(&[]).is_some());
    }
}
