//! The file that an Envoy starts with: who it is and where its configuration comes from. Everything else comes by
//! discovery.

use std::net::SocketAddr;
use std::path::PathBuf;

use causeway_base::well_known::XDS_CLUSTER;
use serde_json::{Value, json};

/// The sockets by which an Envoy and the proxy beside it meet, in a directory that both have.
pub const XDS_SOCKET: &str = "xds.sock";
/// Where that Envoy shows its state.
pub const ADMIN_SOCKET: &str = "admin.sock";
/// Where its workers say that they run.
pub const ANSWERS_SOCKET: &str = "answers.sock";

/// Where somebody listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    fn to_json(&self) -> Value {
        match self {
            Self::Tcp(at) => {
                json!({ "socket_address": { "address": at.ip().to_string(), "port_value": at.port() } })
            }
            Self::Unix(path) => json!({ "pipe": { "path": path } }),
        }
    }
}

/// What an Envoy must know before it asks for anything.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    /// Its name.
    pub node: &'a str,
    /// Where its configuration comes from.
    pub xds: Address,
    /// Where it shows its state.
    pub admin: Address,
    /// Where its workers say that they run, to whoever connects.
    pub answers: Option<Address>,
    /// Whether it asks for changes, or for the state of the world.
    pub delta: bool,
    /// Connections at a time over all listeners: what discovery has no word for.
    pub connection_limit: Option<u32>,
}

/// The start configuration as Envoy reads it.
pub fn bootstrap(start: &Start<'_>) -> Value {
    let Start { node, xds, admin, answers, delta, connection_limit } = start;
    let discovery = json!({ "resource_api_version": "V3", "ads": {} });
    let http2 = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {
            "http2_protocol_options": { "connection_keepalive": { "interval": "30s", "timeout": "20s" } },
        },
    });
    let mut made = json!({
        "node": { "id": node, "cluster": node },
        // Who looks after an Envoy that is full must get in.
        "admin": { "address": admin.to_json(), "ignore_global_conn_limit": true },
        "dynamic_resources": {
            "ads_config": {
                "api_type": if *delta { "DELTA_GRPC" } else { "GRPC" },
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{ "envoy_grpc": { "cluster_name": XDS_CLUSTER } }],
            },
            "cds_config": discovery,
            "lds_config": discovery,
        },
        "static_resources": {
            "clusters": [{
                "name": XDS_CLUSTER,
                "type": "STATIC",
                "connect_timeout": "5s",
                "typed_extension_protocol_options": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2,
                },
                "load_assignment": {
                    "cluster_name": XDS_CLUSTER,
                    "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": xds.to_json() } }] }],
                },
            }],
        },
        // What an operator changes through the admin door holds until the next start.
        "layered_runtime": { "layers": [{ "name": "admin", "admin_layer": {} }] },
    });
    if let Some(answers) = answers {
        made["static_resources"]["listeners"] = json!([{
            "name": "answers",
            "address": answers.to_json(),
            "ignore_global_conn_limit": true,
            "filter_chains": [{ "filters": [{
                "name": "envoy.filters.network.direct_response",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.direct_response.v3.Config",
                    "response": { "inline_string": "here\n" },
                },
            }] }],
        }]);
    }
    if let Some(limit) = connection_limit {
        made["overload_manager"] = json!({ "resource_monitors": [{
            "name": "envoy.resource_monitors.global_downstream_max_connections",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.\
                          DownstreamConnectionsConfig",
                "max_active_downstream_connections": limit,
            },
        }] });
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(xds: Address, delta: bool, connection_limit: Option<u32>) -> Value {
        let admin = Address::Tcp("127.0.0.1:9901".parse().unwrap());
        bootstrap(&Start { node: "edge", xds, admin, answers: None, delta, connection_limit })
    }

    #[test]
    fn says_who_it_is_and_where_its_configuration_comes_from() {
        let made = made(Address::Tcp("[::1]:18000".parse().unwrap()), true, None);
        assert_eq!(made["node"], json!({ "id": "edge", "cluster": "edge" }));
        assert_eq!(made["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
        assert_eq!(made["admin"]["address"]["socket_address"]["port_value"], 9901);
        let cluster = &made["static_resources"]["clusters"][0];
        let endpoint = &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
        assert_eq!(endpoint["address"]["socket_address"], json!({ "address": "::1", "port_value": 18000 }));
    }

    #[test]
    fn a_socket_in_the_file_system_is_a_pipe() {
        let made = made(Address::Unix("/run/xds.sock".into()), false, None);
        assert_eq!(made["dynamic_resources"]["ads_config"]["api_type"], "GRPC");
        assert!(made.get("overload_manager").is_none());
        assert!(made.to_string().contains(r#""pipe":{"path":"/run/xds.sock"}"#));
    }

    #[test]
    fn the_limit_of_connections_is_there_from_the_start() {
        let made = made(Address::Unix("xds.sock".into()), true, Some(500));
        let monitor = &made["overload_manager"]["resource_monitors"][0]["typed_config"];
        assert_eq!(monitor["max_active_downstream_connections"], 500);
        let kind = monitor["@type"].as_str().unwrap();
        assert!(kind.ends_with("downstream_connections.v3.DownstreamConnectionsConfig"), "{kind}");
    }
}
