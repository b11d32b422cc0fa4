//! The machine's resolvers, for pods that have a network namespace of their own and reach nothing but the machine: what
//! they ask there is handed on.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
};

use causeway_base::well_known::MACHINE_ADDRESS;
use causeway_ir::{Action, Cluster, ConnectionRoute, Endpoint, Listener, Name, Plan, Protocol};
use rustix::process::geteuid;

const PORT: u16 = 53;

/// Adds them to the plan of Services. Only root attaches pods, and only root may listen there.
pub(super) fn add(plan: &mut Plan) {
    if geteuid().is_root() {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        extend(plan, &resolvers(&text));
    }
}

fn resolvers(text: &str) -> Vec<SocketAddr> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let named = words.filter(|words| words.first() == Some(&"nameserver"));
    let addresses = named.filter_map(|words| words.get(1)?.parse::<IpAddr>().ok());
    addresses.map(|address| SocketAddr::new(address, PORT)).collect()
}

fn extend(plan: &mut Plan, resolvers: &[SocketAddr]) {
    if resolvers.is_empty() {
        return;
    }
    let endpoints: Vec<Endpoint> = resolvers.iter().map(|address| Endpoint::new(*address)).collect();
    for (word, protocol) in
        [("UDP", Protocol::Udp as fn(ConnectionRoute) -> Protocol), ("TCP", Protocol::Tcp)]
    {
        let (Ok(cluster), Ok(name), Ok(route)) = (
            Name::parse(&format!("resolvers/{word}")),
            Name::parse(&format!("resolvers@{word}")),
            Name::parse("all"),
        ) else {
            continue;
        };
        plan.clusters.push(Cluster::new(cluster.clone(), endpoints.clone()));
        plan.listeners.push(Listener {
            name,
            bind: SocketAddr::from((MACHINE_ADDRESS, PORT)),
            allowed_sources: Vec::new(),
            port: None,
            accept_proxy_protocol: None,
            protocol: protocol(ConnectionRoute {
                name: route,
                connection_limit: None,
                action: Action::forward(cluster),
            }),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_machine_goes_to_its_resolvers() {
        let found = resolvers(
            "# nameserver 9.9.9.9\nsearch lab\nnameserver 10.0.0.1\nnameserver x\nnameserver ::1\n",
        );
        assert_eq!(found, ["10.0.0.1:53".parse().unwrap(), "[::1]:53".parse::<SocketAddr>().unwrap()]);
        let mut plan = Plan::default();
        extend(&mut plan, &found);
        assert_eq!((plan.listeners.len(), plan.clusters.len()), (2, 2));
        assert!(plan.validate().is_empty(), "{:?}", plan.validate());
        extend(&mut plan, &[]);
        assert_eq!(plan.listeners.len(), 2);
    }
}
