//! What of a plan Envoy can't run, or is not translated for it: such a plan is refused whole, never served in part.
//! Everything is taken apart field by field, so that a new field does not compile before it is decided here.

use causeway_ir::{
    Action, Address, Cluster, ConnectionRoute, Endpoint, Limits, Listener, OnRemoval, Plan, Problem,
    Protocol, Tls, TlsRoute, Transport,
};

/// What keeps a valid plan from being served to Envoy, each with the path of the field; empty when nothing does.
pub fn problems(plan: &Plan) -> Vec<Problem> {
    let Plan { listeners, clusters, links, pages: _, limits, drain_timeout: _, on_removal } = plan;
    let Limits {
        connections: _,
        connections_per_source,
        handshake_timeout: _,
        new_connections_per_second: _,
    } = limits;
    let sources = connections_per_source.map(|_| {
        problem(
            "limits.connectionsPerSource".to_owned(),
            "Envoy can't count connections by client address: leave it out, or use our own engine",
        )
    });
    let kept = (*on_removal == OnRemoval::Keep).then(|| {
        problem(
            "onRemoval".to_owned(),
            "Envoy ends the connections of what was removed after its drain time: leave it out, or use our own engine",
        )
    });
    let links =
        (0..links.len()).map(|at| problem(format!("links[{at}]"), "Envoy has no links: use our own engine"));
    let listeners = listeners.iter().enumerate().flat_map(|(at, listener)| in_listener(at, listener));
    let clusters = clusters.iter().enumerate().flat_map(|(at, cluster)| in_cluster(at, cluster));
    sources.into_iter().chain(kept).chain(links).chain(listeners).chain(clusters).collect()
}

fn problem(path: String, message: &str) -> Problem {
    Problem { path, message: message.to_owned() }
}

fn in_listener(at: usize, listener: &Listener) -> Vec<Problem> {
    let Listener { name: _, bind: _, port: _, allowed_sources: _, accept_proxy_protocol: _, protocol } =
        listener;
    let path = |rest: &str| format!("listeners[{at}].protocol.{rest}");
    match protocol {
        Protocol::Tcp(ConnectionRoute { name: _, connection_limit: _, action }) => {
            untranslated(action, || path("tcp.action")).into_iter().collect()
        }
        Protocol::Tls(tls) => in_tls(tls, path),
        Protocol::Udp(ConnectionRoute { name: _, connection_limit: _, action }) => {
            let shares = action.targets().iter().filter(|target| target.weight > 0).count();
            match action {
                Action::Forward(_) if shares <= 1 => Vec::new(),
                Action::Forward(_) => {
                    let path = path("udp.action.forward");
                    vec![problem(
                        path,
                        "Envoy sends the datagrams of a listener to one cluster: name one, or use our own engine",
                    )]
                }
                Action::Refuse(_) | Action::Terminate(_) => {
                    vec![problem(
                        path("udp.action"),
                        "Envoy can only forward datagrams: leave the listener out, or use our own engine",
                    )]
                }
            }
        }
        Protocol::Http(_) => vec![problem(path("http"), "HTTP is not translated for Envoy")],
    }
}

fn in_tls(tls: &Tls, path: impl Fn(&str) -> String) -> Vec<Problem> {
    let Tls { routes, no_server_name, unknown_server_name, plaintext } = tls;
    let routes = routes.iter().enumerate().filter_map(|(at, route)| {
        let TlsRoute { name: _, server_names: _, connection_limit: _, action } = route;
        untranslated(action, || path(&format!("tls.routes[{at}].action")))
    });
    let outcomes = [
        ("noServerName", no_server_name),
        ("unknownServerName", unknown_server_name),
        ("plaintext", plaintext),
    ];
    let outcomes = outcomes.into_iter();
    let outcomes =
        outcomes.filter_map(|(field, action)| untranslated(action, || path(&format!("tls.{field}"))));
    routes.chain(outcomes).collect()
}

/// The path is written only for what is reported: plans are large and mostly fine.
fn untranslated(action: &Action, path: impl FnOnce() -> String) -> Option<Problem> {
    match action {
        Action::Forward(targets) if targets.as_slice().iter().any(|target| target.priority > 0) => {
            let path = format!("{}.forward", path());
            Some(problem(path, "priorities are not translated for Envoy: use our own engine"))
        }
        Action::Forward(_) | Action::Refuse(_) => None,
        Action::Terminate(_) => {
            Some(problem(format!("{}.terminate", path()), "ending TLS is not translated for Envoy"))
        }
    }
}

fn in_cluster(at: usize, cluster: &Cluster) -> Vec<Problem> {
    let Cluster {
        name: _,
        endpoints,
        transport,
        policy: _,
        connect_timeout: _,
        idle_timeout: _,
        retries: _,
        ejection: _,
        health_check: _,
        slow_start: _,
        connection_limit: _,
        send_proxy_protocol: _,
        keepalive: _,
        // Only where requests are forwarded.
        http_version: _,
        no_endpoint_status: _,
    } = cluster;
    let transport = match transport {
        Transport::Direct => None,
        Transport::Tls(_) => Some(("tls", "TLS to endpoints is not translated for Envoy")),
        Transport::Link(_) => Some(("link", "Envoy has no links: use our own engine")),
    };
    let transport = transport.map(|(kind, what)| problem(format!("clusters[{at}].transport.{kind}"), what));
    let endpoints = endpoints.iter().enumerate().filter_map(|(number, endpoint)| {
        let Endpoint { address, weight: _, ready: _, serving: _, terminating: _ } = endpoint;
        let what = match address {
            Address::Socket(_) => return None,
            Address::Unix(path) if path.to_str().is_some() => return None,
            Address::Unix(_) => "Envoy takes paths in UTF-8 only: use our own engine",
            Address::Place(_) => "Envoy has no links, and so no places behind them: use our own engine",
        };
        Some(problem(format!("clusters[{at}].endpoints[{number}].address"), what))
    });
    transport.into_iter().chain(endpoints).collect()
}
