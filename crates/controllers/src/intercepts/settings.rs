//! What the operator decides for workstations and intercepts.

use std::net::{IpAddr, Ipv4Addr};

use causeway_api::names;
use ipnet::IpNet;
use jiff::Timestamp;

use super::room::OF_GRANTS;

/// How laptops find the cluster's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// By the API server's port-forward alone; nothing is opened.
    PortForward,
    /// By the address of its Service, which laptops reach: on one machine.
    ClusterIP,
    /// By ports of the nodes.
    NodePort,
    /// By a load balancer.
    LoadBalancer,
}

/// What workstations may reach besides what is said by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Further networks.
    pub networks: Vec<IpNet>,
    /// Networks that are never reached, whatever else is said. Nodes are, and what clouds have for metadata.
    pub denied: Vec<IpNet>,
    /// No Services.
    pub no_services: bool,
    /// No pods.
    pub no_pods: bool,
    /// Names that the cluster does not have are asked for outside.
    pub outside_names: bool,
}

/// Defaults for all workstations and intercepts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's namespace, which has the cluster's end.
    pub namespace: String,
    /// How laptops find it.
    pub entry: Entry,
    /// The port of the nodes for links; any if left out.
    pub link_node_port: Option<u16>,
    /// The port of the nodes for WireGuard; any if left out.
    pub wireguard_node_port: Option<u16>,
    /// Whether another port is taken where one is busy.
    pub next_port: bool,
    /// Names or addresses to tell laptops, in place of those of nodes and load balancers.
    pub advertise: Vec<String>,
    /// Pods of the cluster's end.
    pub replicas: i32,
    /// Pods of each carrier.
    pub carrier_replicas: i32,
    /// The network that workstations have addresses of.
    pub network: IpNet,
    /// The networks that WireGuard peers are told to send here; found out if left out.
    pub routed: Vec<IpNet>,
    /// What workstations may reach.
    pub bounds: Bounds,
    /// Who may connect through the API server; nobody if left out.
    pub connect_group: Option<String>,
    /// How much the pods of the cluster's end are told of all requests together, in bytes.
    pub room: usize,
    /// The clock that times to live are measured by.
    pub now: fn() -> Timestamp,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: names::NAMESPACE.to_owned(),
            entry: Entry::NodePort,
            link_node_port: Some(31_844),
            wireguard_node_port: Some(31_820),
            next_port: true,
            advertise: Vec::new(),
            replicas: 2,
            carrier_replicas: 2,
            network: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(10, 213, 0, 0)), 16),
            routed: Vec::new(),
            bounds: Bounds::default(),
            connect_group: Some("system:authenticated".to_owned()),
            room: OF_GRANTS,
            now: Timestamp::now,
        }
    }
}
