//! `--admin`: the socket where metrics and state are shown, which a successor inherits.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use causeway_agent::BoundedListener;
use causeway_engine::handover::{Claim, Handed, Purpose};
use causeway_engine::{Handle, admin};
use causeway_ir::{Listener, Plan};
use tokio::net::{TcpListener, UnixListener};

use crate::parts::output::Output;
use crate::parts::unix_socket;

/// Where metrics and state are shown: never beyond this machine.
pub(super) enum AdminSocket {
    Tcp(TcpListener, String),
    Unix(UnixListener, PathBuf),
}

impl AdminSocket {
    /// Opens the socket, or takes it from the predecessor.
    pub(super) async fn open(at: &str, plan: &Plan, claim: Option<&mut Claim>) -> anyhow::Result<Self> {
        let inherited = claim.and_then(|claim| claim.remove(&Purpose::Admin { at: at.to_owned() }).pop());
        let Ok(address) = at.parse::<SocketAddr>() else {
            let path = unix_socket::path(at)?;
            if let Some(socket) = inherited {
                return Ok(Self::Unix(UnixListener::from_std(socket.into())?, path));
            }
            let listener = unix_socket::listen(&path).context("admin can't be served")?;
            return Ok(Self::Unix(listener, path));
        };
        anyhow::ensure!(
            address.ip().is_loopback(),
            "admin shows every connection to whoever asks: use a loopback address like 127.0.0.1:{}, or a Unix socket",
            address.port()
        );
        let clash = |listener: &&Listener| {
            let at = listener.bind;
            let same_address = at.ip() == address.ip() || at.ip().is_unspecified();
            at.port() == address.port() && at.port() != 0 && same_address && !listener.protocol.is_udp()
        };
        if let Some(listener) = plan.listeners.iter().find(clash) {
            anyhow::bail!("--admin {at} clashes with the listener {} on {}", listener.name, listener.bind);
        }
        if let Some(socket) = inherited {
            return Ok(Self::Tcp(TcpListener::from_std(socket.into())?, at.to_owned()));
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("can't serve admin on {at}; choose another with --admin"))?;
        Ok(Self::Tcp(listener, at.to_owned()))
    }

    fn shown(&self) -> String {
        match self {
            Self::Tcp(listener, _) => {
                listener.local_addr().map_or_else(|_| String::new(), |a| format!("http://{a}"))
            }
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    pub(super) fn start(self, handle: Handle, out: Output) -> anyhow::Result<Admin> {
        out.line(format_args!("admin on {}", self.shown()));
        let (socket, at) = match &self {
            Self::Tcp(listener, at) => (listener.as_fd(), at.clone()),
            Self::Unix(listener, path) => (listener.as_fd(), path.display().to_string()),
        };
        let socket = socket.try_clone_to_owned()?;
        let router = admin::with_logging(admin::router(handle), Arc::new(crate::parts::logging::change));
        let serving = async {
            let served = match self {
                Self::Tcp(listener, _) => {
                    axum::serve(BoundedListener::new(listener), admin::guarded(router)).await
                }
                Self::Unix(listener, _) => axum::serve(BoundedListener::new(listener), router).await,
            };
            if let Err(error) = served {
                tracing::warn!(%error, "admin is no longer served");
            }
        };
        Ok(Admin { at, socket, task: tokio::spawn(serving) })
    }
}

/// The admin paths while they are served.
pub(super) struct Admin {
    at: String,
    /// A copy, for a successor.
    socket: OwnedFd,
    task: tokio::task::JoinHandle<()>,
}

impl Admin {
    /// Leaves the socket to the successor.
    pub(super) fn stop(self) {
        self.task.abort();
    }

    /// What a successor gets.
    pub(super) fn handed(&self) -> Option<Handed> {
        let sockets = vec![self.socket.try_clone().ok()?];
        Some(Handed { purpose: Purpose::Admin { at: self.at.clone() }, sockets })
    }
}
