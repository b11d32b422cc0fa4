//! The addresses of Services on this machine: an engine in this process runs the plan that the node makes of them.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use causeway_engine::{Engine, Handle, Options, Status};
use causeway_node::services::{self, Listeners};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::commands::engine::raise_descriptors;

/// Where the API server takes the addresses of Services from.
pub const RANGE: &str = "127.96.0.0/16";
/// One of them.
const PROBE: Ipv4Addr = Ipv4Addr::new(127, 96, 0, 1);
/// How long connections may go on when everything ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Whether this machine lets programs have such addresses, and what to do if not.
pub fn usable() -> Result<(), String> {
    UdpSocket::bind((PROBE, 0)).map(drop).map_err(|error| {
        format!(
            "this machine does not let programs listen on {PROBE}: {error}; Linux does when its loopback has 127.0.0.0/8 \
             (ip addr show lo). Pods and Services have no working addresses without it"
        )
    })
}

/// Makes Services work until `shutdown`.
pub async fn run(client: kube::Client, node: &str, shutdown: CancellationToken) -> anyhow::Result<()> {
    raise_descriptors();
    let (plan_tx, plan_rx) = watch::channel(None); // node → engine
    let (listeners_tx, listeners_rx) = watch::channel(Listeners::new()); // engine → node
    let engine = Engine::start(plan_rx, &Options::default())?;
    tokio::select! {
        () = services::run(client, node, plan_tx, listeners_rx, shutdown.clone()) => {}
        () = report(engine.handle(), &listeners_tx) => {}
    }
    if tokio::time::timeout(DRAIN, engine.shutdown()).await.is_err() {
        tracing::info!("connections to Services were still open at the end");
    }
    Ok(())
}

/// Tells which listeners there are and which of them fail, whenever that changes.
async fn report(handle: Handle, listeners_tx: &watch::Sender<Listeners>) {
    let mut status_rx = handle.watch();
    loop {
        let listeners = listeners(&status_rx.borrow_and_update());
        listeners_tx.send_if_modified(|last| {
            let differs = *last != listeners;
            *last = listeners;
            differs
        });
        if status_rx.changed().await.is_err() {
            return;
        }
    }
}

fn listeners(status: &Status) -> Listeners {
    let all = status.listeners.iter().filter_map(|listener| {
        Some((listener.name.clone(), (listener.bind.parse().ok()?, listener.error.clone())))
    });
    all.collect()
}
