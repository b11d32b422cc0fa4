//! What a pod of a data plane shows: health on the network of all pods, its state on loopback only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use causeway_agent::BoundedListener;
use causeway_engine::Handle;
use causeway_engine::admin::{guarded, router, with_logging};
use tokio::net::TcpListener;

pub(crate) async fn bind(address: IpAddr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let at = SocketAddr::new(address, port);
    TcpListener::bind(at)
        .await
        .with_context(|| format!("can't listen on {at}; choose another port with {flag}"))
}

/// The same on the pod's address, for that network alone.
pub(crate) fn bind_pod(address: IpAddr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let at = SocketAddr::new(address, port);
    causeway_agent::listen_on_pod_network(at)
        .with_context(|| format!("can't listen on {at}; choose another port with {flag}"))
}

/// Where state is shown: on one machine each pod has a loopback address of its own.
pub(crate) fn loopback(pod: IpAddr) -> IpAddr {
    if pod.is_loopback() { pod } else { Ipv4Addr::LOCALHOST.into() }
}

pub(crate) async fn admin(listener: TcpListener, handle: Handle) {
    let router = with_logging(router(handle), Arc::new(crate::parts::logging::change));
    if let Err(error) = axum::serve(BoundedListener::new(listener), guarded(router)).await {
        tracing::warn!(%error, "admin is no longer served");
    }
}
