//! Health over HTTP on the pod's address, for the kubelet: `/healthz` says that the process lives, `/ready` that traffic
//! would pass, and `/drained`, once this process was told to end, that the last connection has ended or had its time:
//! Envoy's container waits for that answer. And `/metrics`, which tell numbers and change nothing; all else of admin stays
//! on loopback.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::bounded::BoundedListener;
use crate::runner::Runner;

/// How long the signal to end may be on its way when Envoy's container asks already.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Where an agent is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It follows its object.
    #[default]
    Following,
    /// Told to end, and as ready as before until it drains.
    Leaving,
    /// Told to end; connections may go on for a while.
    Draining,
    /// The last connection has ended or had its time.
    Drained,
}

pub(crate) async fn serve<R: Runner>(
    listener: TcpListener,
    runner: Arc<R>,
    phase_tx: Arc<watch::Sender<Phase>>,
) {
    let drained_tx = Arc::clone(&phase_tx);
    let measured = Arc::clone(&runner);
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/ready", get(async move || ready(&*runner, *phase_tx.borrow())))
        .route("/metrics", get(async move || metrics(&*measured).await))
        .route("/drained", get(async move || drained(drained_tx.subscribe()).await));
    if let Err(error) = axum::serve(BoundedListener::new(listener), router).await {
        tracing::warn!(%error, "health is no longer served");
    }
}

async fn drained(mut phase: watch::Receiver<Phase>) -> (StatusCode, &'static str) {
    if timeout(TOLD_WITHIN, phase.wait_for(|phase| *phase != Phase::Following)).await.is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "this pod was not told to end\n");
    }
    // An error means that the process ends: that is as good.
    let _ = phase.wait_for(|phase| *phase == Phase::Drained).await;
    (StatusCode::OK, "drained\n")
}

async fn metrics(runner: &impl Runner) -> Response {
    match runner.metrics().await {
        Some((media_type, text)) => ([(header::CONTENT_TYPE, media_type)], text).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn ready(runner: &impl Runner, phase: Phase) -> (StatusCode, String) {
    let mut missing = runner.missing();
    let is_over = matches!(phase, Phase::Draining | Phase::Drained);
    if is_over && !missing.iter().any(|text| text == "draining") {
        missing.push("draining".to_owned());
    }
    if missing.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join("; ")))
}
