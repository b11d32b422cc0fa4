//! What a pod of a DNS server and one of a DHCP server have in common: one address on the isolated network, and an entry in
//! the status of its object.

use std::net::IpAddr;

use causeway_api::ServerReplica;
use serde_json::Value;

use crate::followed::{Followed, State};
use crate::runner::Snapshot;
use crate::standing::Standing;

/// A pod of a server.
#[derive(Debug, Clone)]
pub struct ServerPod {
    /// The object's name.
    pub name: String,
    /// The pod that reports.
    pub pod: String,
    /// The pod's address on the network of all pods.
    pub pod_ip: IpAddr,
    /// Its address on the isolated network.
    pub server_ip: IpAddr,
}

impl ServerPod {
    /// What it says of itself.
    pub(crate) fn entry<F: Followed>(&self, state: &State<F>, carried: &Snapshot<F::Plan>) -> ServerReplica {
        let Standing { refused, trouble, serving } = Standing::of(state, carried);
        ServerReplica {
            name: self.pod.clone(),
            observed_generation: state.generation,
            running_generation: state.running,
            serving,
            address: Some(self.server_ip.to_string()),
            listening: carried.listening.clone(),
            attached: state.plan.as_ref().map(|_| state.here.contains(&self.server_ip)),
            refused,
            trouble,
            names: None,
            failing_upstreams: carried.failing_upstreams.clone(),
            leases: carried.leases,
        }
    }

    /// Its own entry among these.
    pub(crate) fn reported(&self, replicas: &[ServerReplica]) -> Option<Value> {
        serde_json::to_value(replicas.iter().find(|entry| entry.name == self.pod)?).ok()
    }

    /// Whether another pod says that it has the address, too.
    pub(crate) fn is_shared(&self, replicas: &[ServerReplica]) -> bool {
        let own = self.server_ip.to_string();
        replicas.iter().any(|entry| entry.name != self.pod && entry.address.as_ref() == Some(&own))
    }
}
