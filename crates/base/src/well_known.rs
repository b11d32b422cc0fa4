//! Names, ports and addresses that two parts agree on although they must not see each other.

use std::net::Ipv4Addr;

/// Envoy's cluster that leads to our xDS server: its bootstrap names it, and no cluster of a plan may be called so.
pub const XDS_CLUSTER: &str = "xds_cluster";

/// Where a tunnel's client container listens for its host end's control connection.
pub const TUNNEL_CONTROL_PORT: u16 = 15049;
/// Where a tunnel's client container listens for its host end's data connections.
pub const TUNNEL_DATA_PORT: u16 = 15050;

/// Kubernetes' label on an EndpointSlice: the Service that it belongs to.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// On one machine, Services get addresses of this network: far from 127.0.0.1, from pods and from the addresses that
/// resolvers take.
pub const SERVICE_NETWORK: Ipv4Addr = Ipv4Addr::new(127, 96, 0, 0);
/// How many leading bits of [`SERVICE_NETWORK`] are fixed.
pub const SERVICE_PREFIX: u8 = 16;
/// On one machine, the address of the `kubernetes` Service.
pub const API_SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 96, 0, 1);

/// On one machine, the machine itself as pods with a network namespace of their own reach it; the addresses of pods follow.
pub const MACHINE_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 128, 0, 0);

/// The environment variable in which a node tells a process of a pod which file names its resolvers, if that is not
/// `/etc/resolv.conf`.
pub const RESOLV_CONF: &str = "CAUSEWAY_RESOLV_CONF";

/// The environment variable in which a node tells a process of a pod where the processes of its namespace on the same
/// machine hand sockets over; there is none where pods do not share a machine's network.
pub const HANDOVER_DIR: &str = "CAUSEWAY_HANDOVER_DIR";
