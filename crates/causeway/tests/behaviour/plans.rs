//! Plans and their parts with every default, for tests to change.

use std::net::SocketAddr;

use causeway_ir::{Cluster, Endpoint, Listener, Outcome, Plan, Protocol, Refusal, Route, Sniff};

/// A listener on a free port of 127.0.0.1 that tells connections apart by server name.
pub fn by_name(name: &str, routes: impl Into<Vec<Route>>) -> Listener {
    Listener { sniff: Sniff::Tls, ..listener(name, routes.into()) }
}

/// A listener whose connections all go to one cluster.
pub fn plain(name: &str, cluster: &str) -> Listener {
    listener(name, vec![Route { server_names: Vec::new(), ..route(&["all"], cluster) }])
}

/// The same for datagrams.
pub fn udp(name: &str, cluster: &str) -> Listener {
    Listener { protocol: Protocol::Udp, ..plain(name, cluster) }
}

fn listener(name: &str, routes: Vec<Route>) -> Listener {
    Listener {
        name: name.to_owned(),
        bind: "127.0.0.1:0".to_owned(),
        protocol: Protocol::Tcp,
        sniff: Sniff::None,
        accept_proxy_protocol: false,
        routes,
        no_server_name: Outcome::default(),
        unknown_server_name: Outcome::default(),
        plaintext: Outcome::Refuse(Refusal::Close),
    }
}

/// A route for these names, which is called like the first.
pub fn route(names: &[&str], cluster: &str) -> Route {
    Route {
        name: names[0].to_owned(),
        server_names: names.iter().map(|&name| name.to_owned()).collect(),
        cluster: cluster.to_owned(),
        connection_limit: None,
    }
}

pub fn cluster(name: &str, endpoints: &[SocketAddr]) -> Cluster {
    Cluster::new(name, endpoints.iter().map(|address| Endpoint::new(address.to_string())).collect())
}

pub fn plan(listeners: impl Into<Vec<Listener>>, clusters: impl Into<Vec<Cluster>>) -> Plan {
    Plan { listeners: listeners.into(), clusters: clusters.into(), ..Plan::default() }
}

/// One plain listener `in` and the cluster `c` behind it.
pub fn one(endpoints: &[SocketAddr]) -> Plan {
    plan([plain("in", "c")], [cluster("c", endpoints)])
}
