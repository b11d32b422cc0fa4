//! What the operator is told of developers' machines: how they find the cluster, and what they may reach.

use causeway_controllers::intercepts::{Bounds, Entry, Settings};
use ipnet::IpNet;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workstations and intercepts")]
pub(crate) struct WorkstationArgs {
    /// How developers' machines find the cluster: through the API server alone, by ports of the nodes, or by a load balancer.
    #[arg(
        long,
        env = "CAUSEWAY_WORKSTATION_ENTRY",
        value_enum,
        default_value = "node-port",
        value_name = "ENTRY"
    )]
    workstation_entry: EntryArg,
    /// Port of the nodes for links of developers' machines; 0 takes any.
    #[arg(long, env = "CAUSEWAY_LINK_NODE_PORT", default_value_t = 31_844, value_name = "PORT")]
    link_node_port: u16,
    /// Port of the nodes for WireGuard; 0 takes any.
    #[arg(long, env = "CAUSEWAY_WIREGUARD_NODE_PORT", default_value_t = 31_820, value_name = "PORT")]
    wireguard_node_port: u16,
    /// Take no other port of the nodes where one of these is busy.
    #[arg(long)]
    no_other_node_port: bool,
    /// Tell developers' machines this name or address of the cluster, in place of those of nodes or load balancer; may be
    /// given several times.
    #[arg(
        long = "workstation-address",
        env = "CAUSEWAY_WORKSTATION_ADDRESSES",
        value_delimiter = ',',
        value_name = "HOST"
    )]
    addresses: Vec<String>,
    /// Network that developers' machines have addresses of in WireGuard.
    #[arg(long, env = "CAUSEWAY_WORKSTATION_NETWORK", value_name = "CIDR")]
    workstation_network: Option<IpNet>,
    /// Networks that WireGuard peers are told to send to the cluster [default: those of its Services and pods].
    #[arg(
        long = "workstation-route",
        env = "CAUSEWAY_WORKSTATION_ROUTES",
        value_delimiter = ',',
        value_name = "CIDR"
    )]
    routes: Vec<IpNet>,
    /// A network that developers' machines may reach beside Services and pods; may be given several times.
    #[arg(
        long = "workstation-reach",
        env = "CAUSEWAY_WORKSTATION_REACH",
        value_delimiter = ',',
        value_name = "CIDR"
    )]
    reach: Vec<IpNet>,
    /// A network that they may never reach, whatever else is said; may be given several times. Nodes and metadata of clouds are
    /// never reached.
    #[arg(
        long = "workstation-deny",
        env = "CAUSEWAY_WORKSTATION_DENY",
        value_delimiter = ',',
        value_name = "CIDR"
    )]
    deny: Vec<IpNet>,
    /// Developers' machines may not reach Services.
    #[arg(long)]
    workstations_without_services: bool,
    /// Developers' machines may not reach pods.
    #[arg(long)]
    workstations_without_pods: bool,
    /// Names that the cluster does not have are asked for where the cluster's end runs.
    #[arg(long)]
    workstation_outside_names: bool,
    /// Who may connect through the API server: a group of the cluster's users; empty for nobody but those who have the right
    /// otherwise.
    #[arg(
        long,
        env = "CAUSEWAY_WORKSTATION_GROUP",
        default_value = "system:authenticated",
        value_name = "GROUP"
    )]
    workstation_group: String,
    /// Pods of the cluster's end of developers' machines.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=16), value_name = "N")]
    stowaway_replicas: i32,
    /// Pods in front of each intercepted Service.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=16), value_name = "N")]
    carrier_replicas: i32,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum EntryArg {
    PortForward,
    NodePort,
    LoadBalancer,
}

impl WorkstationArgs {
    /// For an operator in this namespace.
    pub(crate) fn settings(self, namespace: &str) -> Settings {
        let port = |port: u16| Some(port).filter(|port| *port > 0);
        let usual = Settings::default();
        Settings {
            namespace: namespace.to_owned(),
            entry: match self.workstation_entry {
                EntryArg::PortForward => Entry::PortForward,
                EntryArg::NodePort => Entry::NodePort,
                EntryArg::LoadBalancer => Entry::LoadBalancer,
            },
            link_node_port: port(self.link_node_port),
            wireguard_node_port: port(self.wireguard_node_port),
            next_port: !self.no_other_node_port,
            advertise: self.addresses,
            replicas: self.stowaway_replicas,
            carrier_replicas: self.carrier_replicas,
            network: self.workstation_network.unwrap_or(usual.network),
            routed: self.routes,
            bounds: Bounds {
                networks: self.reach,
                denied: self.deny,
                no_services: self.workstations_without_services,
                no_pods: self.workstations_without_pods,
                outside_names: self.workstation_outside_names,
            },
            connect_group: Some(self.workstation_group).filter(|group| !group.is_empty()),
            room: usual.room,
            now: usual.now,
        }
    }
}
