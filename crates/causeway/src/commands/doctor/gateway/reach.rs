//! Whether the address of a Gateway takes connections, as seen from here.

use std::time::Duration;

use causeway_translate::endpoints::Protocol;
use causeway_translate::gateway::kinds::Gateway;
use causeway_translate::gateway::picture::{Port, node_ports};
use kube::Client;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::proxy::Place;
use crate::parts::gateway::Given;

const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn examine(client: &Client, gateway: &Gateway, given: &Given) -> Vec<Finding> {
    let addresses = gateway.status["addresses"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = addresses.filter_map(|address| address["value"].as_str()).collect();
    if addresses.is_empty() {
        let cure = "with a Service of type LoadBalancer somebody has to give it one; GatewayParameters say another type";
        return vec![Finding::bad("it has no address", cure)];
    }
    let service = given.service(client).await;
    let on_nodes = service.as_ref().map(node_ports).unwrap_or_default();
    let type_ = service.and_then(|service| service.spec?.type_).unwrap_or_default();
    // Nobody outside of a cluster has a way to its own addresses.
    let is_inside = type_ == "ClusterIP" && Place::of(client).await == Place::Cluster;
    let mut found = Vec::new();
    for address in addresses {
        for listener in given.plan.listeners.iter().filter(|listener| !listener.protocol.is_udp()) {
            let number = listener.bind.port();
            let known = Port { protocol: Protocol::Tcp, number };
            let (port, leads_to) = match on_nodes.get(&known) {
                None => (number, String::new()),
                Some(Some(port)) => (*port, format!(" for port {number}")),
                Some(None) => {
                    let cure = "the cluster gives ports to Services of type NodePort: look at its Service";
                    found.push(Finding::bad(format!("port {number} has no port on the nodes"), cure));
                    continue;
                }
            };
            let at = format!("{address}:{port}");
            let at = if address.contains(':') { format!("[{address}]:{port}") } else { at };
            let failed = match timeout(PATIENCE, TcpStream::connect(&at)).await {
                Ok(Ok(_)) => {
                    found.push(Finding::good(format!("{at} takes connections{leads_to}")));
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
            };
            found.push(if is_inside {
                Finding::unchecked(format!("{at} is an address of the cluster's own, and is not reached from here: {failed}"))
            } else {
                let cure = "what is in front of its pods does not lead to them: look at its Service, its endpoints, and \
                            firewalls on the way";
                Finding::bad(format!("{at} takes no connection: {failed}"), cure)
            });
        }
    }
    found
}
