//! What a proxy shows on loopback only: its state and metrics, and the way to an Envoy's sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_agent::BoundedListener;
use causeway_engine::Handle;
use causeway_engine::admin::{guarded, router, with_logging};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;

/// Relayed connections at a time.
const MOST_RELAYED: usize = 64;
/// After a connection that could not be taken: there may be no descriptor left.
const RELAY_REST: Duration = Duration::from_millis(100);

pub(super) async fn bind(address: IpAddr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let at = SocketAddr::new(address, port);
    TcpListener::bind(at)
        .await
        .with_context(|| format!("can't listen on {at}; choose another port with {flag}"))
}

/// The same on the pod's address, for that network alone.
pub(super) fn bind_pod(address: IpAddr, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let at = SocketAddr::new(address, port);
    causeway_agent::listen_on_pod_network(at)
        .with_context(|| format!("can't listen on {at}; choose another port with {flag}"))
}

/// Where state is shown: on one machine each pod has a loopback address of its own.
pub(super) fn loopback(pod: IpAddr) -> IpAddr {
    if pod.is_loopback() { pod } else { Ipv4Addr::LOCALHOST.into() }
}

pub(super) async fn admin(listener: TcpListener, handle: Handle) {
    let router = with_logging(router(handle), Arc::new(crate::parts::logging::change));
    if let Err(error) = axum::serve(BoundedListener::new(listener), guarded(router)).await {
        tracing::warn!(%error, "admin is no longer served");
    }
}

/// Passes what comes here on to a socket in the file system and back: on one machine each pod has its own address, but
/// Envoy is started before anybody knows which.
pub(super) async fn relay(listener: TcpListener, socket: PathBuf) {
    let permits = Arc::new(Semaphore::new(MOST_RELAYED));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
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
            // Without an Envoy behind the socket the client's connection is closed.
            if let Ok(mut far) = UnixStream::connect(&socket).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
            drop(permit);
        });
    }
}
