//! The addresses of Services on this machine: an engine in this process runs the plan that the node makes of them.

use std::fmt;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use causeway_base::well_known::{API_SERVER_ADDRESS, SERVICE_NETWORK, SERVICE_PREFIX};
use causeway_engine::{Engine, Handle, Options, Status};
use causeway_node::services::{self, Listeners};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long open connections may go on after shutdown.
const DRAIN: Duration = Duration::from_secs(5);

/// Whether the addresses of Services work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Services {
    On,
    /// Switched off with `--no-services`.
    Off,
    /// This machine does not have such addresses.
    Unusable(String),
}

impl Services {
    /// Finds out whether programs of this machine can listen on such addresses.
    pub(super) fn probe() -> Self {
        match UdpSocket::bind((API_SERVER_ADDRESS, 0)) {
            Ok(_) => Self::On,
            Err(error) => Self::Unusable(format!(
                "this machine does not let programs listen on {API_SERVER_ADDRESS}: {error}; Linux does when its loopback has \
                 127.0.0.0/8 (ip addr show lo). Pods and Services have no working addresses without it"
            )),
        }
    }
}

impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On => write!(f, "on ({SERVICE_NETWORK}/{SERVICE_PREFIX})"),
            Self::Off => write!(f, "off"),
            Self::Unusable(why) => write!(f, "off: {why}"),
        }
    }
}

/// Makes Services work until `shutdown`; those of type LoadBalancer also on `listen_on`.
pub(super) async fn run(
    client: kube::Client,
    node: &str,
    listen_on: Option<IpAddr>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (plan_tx, plan_rx) = watch::channel(None); // node → engine
    let (listeners_tx, listeners_rx) = watch::channel(Listeners::new()); // engine → node
    let engine = Engine::start(plan_rx, &Options::default())?;
    tokio::select! {
        () = services::run(client, node, listen_on, plan_tx, listeners_rx, shutdown.clone()) => {}
        () = report(engine.handle(), &listeners_tx) => {}
    }
    if tokio::time::timeout(DRAIN, engine.shutdown()).await.is_err() {
        tracing::info!("connections to Services were still open at the end");
    }
    Ok(())
}

/// Reports the listeners and their errors to the node whenever they change.
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
    let all = status.listeners.iter();
    all.map(|listener| (listener.name.to_string(), (listener.bind, listener.error.clone()))).collect()
}
