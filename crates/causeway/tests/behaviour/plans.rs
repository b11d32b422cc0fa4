//! Plans and their parts with every default, for tests to change.

use std::net::SocketAddr;

use causeway_ir::{
    Action, Address, Cluster, ConnectionRoute, Endpoint, Listener, Name, Pattern, Plan, Protocol, Tls,
    TlsRoute,
};

/// A name of a plan.
pub fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// The action that sends all to one cluster.
pub fn forward(cluster: &str) -> Action {
    Action::forward(name(cluster))
}

/// A listener on a free port of 127.0.0.1 that tells connections apart by server name.
pub fn by_name(name: &str, routes: impl Into<Vec<TlsRoute>>) -> Listener {
    listener(name, Protocol::Tls(Tls { routes: routes.into(), ..Tls::default() }))
}

/// A listener whose connections all go to one cluster.
pub fn plain(name: &str, cluster: &str) -> Listener {
    listener(name, Protocol::Tcp(all(cluster)))
}

/// The same for datagrams.
pub fn udp(name: &str, cluster: &str) -> Listener {
    listener(name, Protocol::Udp(all(cluster)))
}

fn all(cluster: &str) -> ConnectionRoute {
    ConnectionRoute { name: name("all"), connection_limit: None, action: forward(cluster) }
}

fn listener(called: &str, protocol: Protocol) -> Listener {
    Listener {
        name: name(called),
        bind: SocketAddr::from(([127, 0, 0, 1], 0)),
        allowed_sources: Vec::new(),
        port: None,
        accept_proxy_protocol: None,
        protocol,
    }
}

/// What a listener that tells connections apart by server name does with them.
pub fn tls(listener: &mut Listener) -> &mut Tls {
    match &mut listener.protocol {
        Protocol::Tls(tls) => tls,
        other => panic!("no server names: {other:?}"),
    }
}

/// Its routes by server name.
pub fn routes(plan: &mut Plan) -> &mut Vec<TlsRoute> {
    &mut tls(&mut plan.listeners[0]).routes
}

/// Gives the first listener, which does not look at names, another action.
pub fn set_action(plan: &mut Plan, action: Action) {
    match &mut plan.listeners[0].protocol {
        Protocol::Tcp(route) | Protocol::Udp(route) => route.action = action,
        other => panic!("more than one action: {other:?}"),
    }
}

/// A route for these names, which is called like the first.
pub fn route(names: &[&str], cluster: &str) -> TlsRoute {
    TlsRoute {
        name: name(names[0]),
        server_names: names.iter().map(|name| Pattern::parse(name).unwrap()).collect(),
        connection_limit: None,
        action: forward(cluster),
    }
}

pub fn cluster(called: &str, endpoints: &[SocketAddr]) -> Cluster {
    Cluster::new(name(called), endpoints.iter().copied().map(endpoint).collect())
}

pub fn endpoint(address: impl Into<Address>) -> Endpoint {
    Endpoint::new(address)
}

pub fn plan(listeners: impl Into<Vec<Listener>>, clusters: impl Into<Vec<Cluster>>) -> Plan {
    Plan { listeners: listeners.into(), clusters: clusters.into(), ..Plan::default() }
}

/// One plain listener `in` and the cluster `c` behind it.
pub fn one(endpoints: &[SocketAddr]) -> Plan {
    plan([plain("in", "c")], [cluster("c", endpoints)])
}
