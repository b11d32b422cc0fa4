//! What a pod of a DNS server and one of a DHCP server have in common: one address on the isolated network, and an entry in
//! the status of its object.

use std::net::{IpAddr, SocketAddr};

use causeway_api::{ServerReplica, names};
use serde_json::Value;

use crate::followed::{Followed, State, Surroundings};
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
            unreached: carried.unreached.clone(),
            refused,
            trouble,
            names: None,
            failing_upstreams: carried.failing_upstreams.clone(),
            leases: carried.leases,
        }
    }

    /// What the operator tells the pods of this object, which is of this role, under a key.
    pub(crate) fn told<'a>(&self, role: &str, surroundings: &'a Surroundings, key: &str) -> &'a str {
        let entries = surroundings.config_maps.get(&names::server_config_map(&self.name, role));
        entries.and_then(|entries| entries.get(key)).map_or("", String::as_str)
    }

    /// The others that the operator tells of.
    pub(crate) fn neighbours(&self, role: &str, surroundings: &Surroundings) -> Vec<SocketAddr> {
        let told = self.told(role, surroundings, names::NEIGHBOURS).split(',');
        let told = told.filter_map(|text| text.parse::<SocketAddr>().ok());
        told.filter(|neighbour| neighbour.ip() != self.server_ip).collect()
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
