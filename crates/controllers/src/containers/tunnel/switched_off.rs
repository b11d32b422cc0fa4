//! Tunnel proxies of an operator without container runtimes: nothing is made and nothing else is watched, and each object
//! says why.

use std::{hash::Hasher as _, sync::Arc};

use causeway_api::{ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, names};
use jiff::Timestamp;
use kube::Client;

use super::{FIELD_MANAGER, NAME, status, uid};
use crate::containers::runtime::OFF;
use crate::framework::{
    children::{ChildKind, Children},
    error::Error,
    events::Recorder,
    finalizer::Finalizer,
    runner::{Reconciler, life},
    status::Writer,
};

/// Says in every tunnel proxy's status that nothing is done for it.
pub(crate) struct Controller {
    finalizer: Finalizer<ContainerNetworkTunnelProxy>,
    status: Writer<ContainerNetworkTunnelProxyStatus>,
    events: Recorder,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, identity: &str) -> Self {
        Self {
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_TUNNEL_PROXY),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            events: Recorder::new(client, "causeway.dev/tunnel", identity),
        }
    }
}

impl Reconciler for Controller {
    type Primary = ContainerNetworkTunnelProxy;
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] = &[];

    async fn reconcile(&self, proxy: Arc<ContainerNetworkTunnelProxy>, _: Children) -> Result<(), Error> {
        let previous = self.status.previous(&*proxy);
        let is_deleted = proxy.metadata.deletion_timestamp.is_some();
        let was_made =
            previous.client_proxy_container_id.is_some() || previous.server_proxy_process_id.is_some();
        if is_deleted && !was_made {
            return if self.finalizer.is_on(&proxy) { self.finalizer.remove(&proxy).await } else { Ok(()) };
        }
        let generation = proxy.metadata.generation.unwrap_or_default();
        let next = status::switched_off(&previous, OFF, is_deleted, generation, Timestamp::now());
        self.status.report(&*proxy, &previous, &next, &self.events, status::notes).await
    }

    fn wakes_on(proxy: &ContainerNetworkTunnelProxy) -> Option<u64> {
        Some(life(proxy).finish())
    }

    fn forget(&self, proxy: &ContainerNetworkTunnelProxy) {
        self.status.forget(uid(proxy));
    }
}
