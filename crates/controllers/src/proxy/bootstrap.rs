//! The file that an Envoy starts with: who it is and where its configuration comes from. Everything else comes by
//! discovery.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

/// The static cluster that leads to the xDS server.
pub const XDS_CLUSTER: &str = "xds_cluster";

/// Where the xDS server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XdsAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// The bootstrap of the Envoy `node`, with its admin door at `admin` and the incremental protocol if `delta`.
pub fn bootstrap(node: &str, xds: &XdsAddress, admin: SocketAddr, delta: bool) -> Value {
    let discovery = json!({ "resource_api_version": "V3", "ads": {} });
    let upstream = match xds {
        XdsAddress::Tcp(address) => socket(*address),
        XdsAddress::Unix(path) => json!({ "pipe": { "path": path } }),
    };
    let http2 = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {
            "http2_protocol_options": { "connection_keepalive": { "interval": "30s", "timeout": "20s" } },
        },
    });
    json!({
        "node": { "id": node, "cluster": node },
        "admin": { "address": socket(admin) },
        "dynamic_resources": {
            "ads_config": {
                "api_type": if delta { "DELTA_GRPC" } else { "GRPC" },
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
                    "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": upstream } }] }],
                },
            }],
        },
        // What an operator changes through the admin door holds until the next start.
        "layered_runtime": { "layers": [{ "name": "admin", "admin_layer": {} }] },
    })
}

fn socket(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(xds: &XdsAddress, delta: bool) -> Value {
        bootstrap("edge", xds, "127.0.0.1:9901".parse().unwrap(), delta)
    }

    #[test]
    fn says_who_it_is_and_where_its_configuration_comes_from() {
        let made = made(&XdsAddress::Tcp("[::1]:18000".parse().unwrap()), true);
        assert_eq!(made["node"], json!({ "id": "edge", "cluster": "edge" }));
        assert_eq!(made["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
        assert_eq!(made["admin"]["address"]["socket_address"]["port_value"], 9901);
        let cluster = &made["static_resources"]["clusters"][0];
        let endpoint = &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
        assert_eq!(endpoint["address"]["socket_address"], json!({ "address": "::1", "port_value": 18000 }));
    }

    #[test]
    fn a_socket_in_the_file_system_is_a_pipe() {
        let made = made(&XdsAddress::Unix("/run/xds.sock".into()), false);
        assert_eq!(made["dynamic_resources"]["ads_config"]["api_type"], "GRPC");
        assert!(made.to_string().contains(r#""pipe":{"path":"/run/xds.sock"}"#));
    }
}
