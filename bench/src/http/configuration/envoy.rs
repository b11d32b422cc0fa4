//! Envoy.

use std::net::SocketAddrV4;
use std::path::Path;

use serde_json::{Value, json};

use super::{Files, cluster};
use crate::http::certificates::{CHAIN, KEY};
use crate::http::setting::{GATEWAY, Route, Setting, Version};

pub(crate) const FILE: &str = "envoy.json";

const KINDS: &str = "type.googleapis.com/envoy.extensions";

pub(crate) fn files(setting: &Setting, certificates: &Path) -> Files {
    let hosts = setting.by_host().into_iter().map(|(host, routes)| virtual_host(host, &routes));
    let router =
        json!({"@type": format!("{KINDS}.filters.http.router.v3.Router"), "suppress_envoy_headers": true});
    let host = json!({"key": "x-forwarded-host", "value": "%REQ(:AUTHORITY)%"});
    let told = json!({"header": host, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"});
    let manager = json!({
        "@type": format!("{KINDS}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "front",
        "codec_type": "AUTO",
        "use_remote_address": true,
        "generate_request_id": false,
        "stream_idle_timeout": "0s",
        "route_config": {"virtual_hosts": hosts.collect::<Vec<_>>(), "request_headers_to_add": [told]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    });
    let filter = json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
    let mut chain = json!({"filters": [filter]});
    if setting.has_tls() {
        chain["transport_socket"] = tls(setting, certificates);
    }
    let clusters = setting.backends.iter().enumerate().map(|(place, at)| backend(setting, place, *at));
    let all = json!({"static_resources": {
        "listeners": [{"name": "front", "address": address(GATEWAY), "filter_chains": [chain]}],
        "clusters": clusters.collect::<Vec<_>>(),
    }});
    vec![(FILE, all.to_string())]
}

fn virtual_host(host: Option<&str>, routes: &[&Route]) -> Value {
    let domain = host.unwrap_or("*");
    let routes = routes.iter().map(|route| {
        json!({
            "match": {"prefix": route.prefix},
            "route": {"cluster": cluster(route.backend), "timeout": "0s"},
        })
    });
    json!({"name": domain, "domains": [domain], "routes": routes.collect::<Vec<_>>()})
}

/// One context for all certificates, which chooses by name.
fn tls(setting: &Setting, certificates: &Path) -> Value {
    let certificate = |name: &String| {
        let dir = certificates.join(name);
        json!({"certificate_chain": {"filename": dir.join(CHAIN)}, "private_key": {"filename": dir.join(KEY)}})
    };
    let alpn: &[&str] = match setting.front {
        Version::Http1 => &["http/1.1"],
        Version::Http2 => &["h2", "http/1.1"],
    };
    let context = json!({
        "@type": format!("{KINDS}.transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": {
            "alpn_protocols": alpn,
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
            "tls_certificates": setting.certificates.iter().map(certificate).collect::<Vec<_>>(),
        },
    });
    json!({"name": "envoy.transport_sockets.tls", "typed_config": context})
}

fn backend(setting: &Setting, place: usize, at: SocketAddrV4) -> Value {
    const MOST: u32 = 1_000_000;
    let limits = json!({"max_connections": MOST, "max_pending_requests": MOST, "max_requests": MOST});
    let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": address(at)}}]}]);
    let mut backend = json!({
        "name": cluster(place),
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [limits]},
        "load_assignment": {"cluster_name": cluster(place), "endpoints": endpoints},
    });
    if setting.back == Version::Http2 {
        let options = format!("{KINDS}.upstreams.http.v3.HttpProtocolOptions");
        backend["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions":
                {"@type": options, "explicit_http_config": {"http2_protocol_options": {}}},
        });
    }
    backend
}

fn address(at: SocketAddrV4) -> Value {
    json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}})
}
