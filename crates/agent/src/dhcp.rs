//! DHCPServers: what a pod of one follows, runs and reports.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use causeway_api::{DHCPServer, names};
use causeway_ir::dhcp::DhcpPlan;
use causeway_ir::{Name, Problem};
use causeway_translate::dhcp::{self, Valid, read_clients, share, translate, validate};
use serde_json::Value;

use crate::followed::{Followed, Needs, State, Surroundings};
use crate::runner::Snapshot;
use crate::server::ServerPod;

/// What Multus calls the first further network of a pod; said where the address is not there, so nothing is known.
const FIRST_ATTACHMENT: &str = "net1";

const ROLE: &str = "dhcp";

/// A pod of a DHCP server.
pub struct Dhcp(pub ServerPod);

impl Followed for Dhcp {
    type Object = DHCPServer;
    type Checked = Valid;
    type Plan = DhcpPlan;
    type Notes = ();

    const IS_SUPPLIED: bool = false;

    fn check(&self, object: &DHCPServer) -> Result<Valid, Vec<Problem>> {
        validate(object)
    }

    fn needs(&self, _: &Valid) -> Needs {
        Needs {
            addresses: vec![self.0.server_ip],
            config_maps: [names::server_config_map(&self.0.name, ROLE)].into(),
            ..Needs::default()
        }
    }

    fn plan(
        &self,
        server: &Valid,
        surroundings: &Surroundings,
        _: Option<&DhcpPlan>,
    ) -> Result<(DhcpPlan, ()), Vec<Problem>> {
        let problem = |path: &str, message: String| vec![Problem { path: path.to_owned(), message }];
        let address = self.address().map_err(|message| problem("spec.networkConfig.serverIP", message))?;
        let interface =
            surroundings.interfaces.get(&self.0.server_ip).map_or(FIRST_ATTACHMENT, String::as_str);
        let interface = Name::parse(interface).map_err(|message| problem("interface", message))?;
        let told = |key: &str| self.0.told(ROLE, surroundings, key);
        let others = dhcp::Surroundings {
            clients: read_clients(told(names::SERVED_CLIENTS)),
            taken: told(names::TAKEN_ADDRESSES).split(',').filter_map(|text| text.parse().ok()).collect(),
            shared_before: told(names::SHARED_BEFORE).split(' ').next().and_then(|text| text.parse().ok()),
        };
        let plan = translate(server, address, interface, &others);
        let problems = plan.validate();
        if problems.is_empty() { Ok((plan, ())) } else { Err(problems) }
    }

    /// Two servers must never lease one address: what is not leased yet waits until the operator has looked at the others. And
    /// one that is no longer asked for stays with its part until it ends.
    fn is_cleared(&self, server: &Valid, surroundings: &Surroundings, running: Option<&DhcpPlan>) -> bool {
        let asks = server.share();
        let is_asked_for = server.servers.iter().any(|own| IpAddr::V4(*own) == self.0.server_ip);
        let is_told = || self.0.told(ROLE, surroundings, names::CLEARED_SHARE) == asks;
        is_asked_for && (is_told() || running.is_some_and(|running| share(running) == asks))
    }

    fn neighbours(&self, surroundings: &Surroundings) -> Vec<SocketAddr> {
        self.0.neighbours(ROLE, surroundings)
    }

    fn report(&self, state: &State<Self>, carried: &Snapshot<DhcpPlan>) -> Value {
        serde_json::to_value(self.0.entry(state, carried)).unwrap_or_default()
    }

    fn reported(&self, object: &DHCPServer) -> Option<Value> {
        self.0.reported(&object.status.as_ref()?.replicas)
    }

    fn is_shared(&self, object: &DHCPServer) -> bool {
        object.status.as_ref().is_some_and(|status| self.0.is_shared(&status.replicas))
    }
}

impl Dhcp {
    fn address(&self) -> Result<Ipv4Addr, String> {
        match self.0.server_ip {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(address) => Err(format!("{address} is not an IPv4 address")),
        }
    }
}
