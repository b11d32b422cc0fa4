//! What carries a proxy's traffic: our own engine, or an Envoy beside this process that is fed by xDS.

use std::net::IpAddr;
use std::time::Duration;

use causeway_agent::{Runner, Snapshot};
use causeway_engine::handover::{Handed, Purpose};
use causeway_ir::Plan;
use futures::StreamExt;
use futures::stream::BoxStream;

use super::envoy::Envoy;
use crate::parts::native::Native;

/// Either of the two.
pub(crate) enum Carrier {
    Native(Native),
    Envoy(Envoy),
}

impl Carrier {
    /// Waits until traffic passes.
    pub(super) async fn serves(&self) {
        let mut changes = self.changes();
        while !self.missing().is_empty() && changes.next().await.is_some() {}
    }

    /// Copies of the sockets that a successor can use: those that are not on this pod's own address.
    pub(super) async fn sockets(&self, pod_ip: IpAddr) -> Vec<Handed> {
        let Self::Native(native) = self else { return Vec::new() };
        let mut sockets = native.sockets().await;
        sockets.retain(
            |handed| matches!(&handed.purpose, Purpose::Listener { bind, .. } if bind.ip() != pod_ip),
        );
        sockets
    }

    /// A successor has those sockets and serves.
    pub(super) async fn leave_datagrams(&self, pod_ip: IpAddr) {
        let left: Vec<_> = self.sockets(pod_ip).await.into_iter().map(|handed| handed.purpose).collect();
        if let Self::Native(native) = self {
            native.leave_datagrams(&left);
        }
    }
}

impl Runner for Carrier {
    type Plan = Plan;

    fn missing(&self) -> Vec<String> {
        match self {
            Self::Native(native) => native.missing(),
            Self::Envoy(envoy) => envoy.missing(),
        }
    }

    async fn snapshot(&self) -> Snapshot<Plan> {
        match self {
            Self::Native(native) => native.snapshot().await,
            Self::Envoy(envoy) => envoy.snapshot().await,
        }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        match self {
            Self::Native(native) => native.changes(),
            Self::Envoy(envoy) => envoy.changes(),
        }
    }

    fn spec_refused(&self) {
        if let Self::Native(native) = self {
            native.spec_refused();
        }
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Native(native) => native.metrics().await,
            Self::Envoy(envoy) => Some(("text/plain; version=0.0.4", envoy.metrics().await?)),
        }
    }

    fn drain_limit(&self) -> Duration {
        match self {
            Self::Native(native) => native.drain_limit(),
            Self::Envoy(envoy) => envoy.drain_limit(),
        }
    }

    async fn drain(&self) {
        match self {
            Self::Native(native) => native.drain().await,
            Self::Envoy(envoy) => envoy.drain().await,
        }
    }
}
