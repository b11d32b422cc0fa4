//! What a proxy shows over HTTP: health on the pod's address for the kubelet, state and metrics on loopback only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use causeway_engine::Handle;
use causeway_engine::admin::{router, with_logging};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::carrier::{Phase, View};

/// Relayed connections at a time.
const MOST_RELAYED: usize = 64;
/// After a connection that could not be taken: there may be no descriptor left.
const RELAY_REST: Duration = Duration::from_millis(100);

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

/// `/healthz` says that the process lives, `/ready` that traffic would pass, and `/drained`, once this process was told
/// to end, that the last connection has ended or had its time: Envoy's container waits for that answer.
pub async fn health(listener: TcpListener, view: View) {
    let drained_of = view.clone();
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/ready", get(async move || ready(&view)))
        .route("/drained", get(async move || drained(&drained_of).await));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::warn!(%error, "health is no longer served");
    }
}

pub async fn admin(listener: TcpListener, handle: Handle) {
    let router = with_logging(router(handle), Arc::new(crate::parts::logging::change));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::warn!(%error, "admin is no longer served");
    }
}

/// Passes what comes here on to a socket in the file system and back: on one machine each pod has its own address, but
/// Envoy is started before anybody knows which.
pub async fn relay(listener: TcpListener, socket: PathBuf) {
    let places = Arc::new(Semaphore::new(MOST_RELAYED));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let mut near = match listener.accept().await {
            Ok((near, _)) => near,
            Err(error) => {
                tracing::warn!(%error, "a connection to {} is not taken", socket.display());
                tokio::time::sleep(RELAY_REST).await;
                continue;
            }
        };
        let socket = socket.clone();
        tokio::spawn(async move {
            // Who finds nobody there sees the connection end.
            if let Ok(mut far) = UnixStream::connect(&socket).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
            drop(place);
        });
    }
}

/// How long the word to end may be on its way when Envoy's container asks already.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

async fn drained(view: &View) -> (StatusCode, &'static str) {
    let mut phase = view.phase();
    if timeout(TOLD_WITHIN, phase.wait_for(|p| *p != Phase::Carrying)).await.is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "this proxy was not told to end\n");
    }
    // An error means that the process ends: that is as good.
    let _ = phase.wait_for(|p| *p == Phase::Drained).await;
    (StatusCode::OK, "drained\n")
}

fn ready(view: &View) -> (StatusCode, String) {
    let missing = view.missing();
    if missing.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join("; ")))
}
