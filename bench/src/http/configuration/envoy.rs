//! Envoy.

use std::net::SocketAddrV4;
use std::path::Path;

use serde_json::{Value, json};

use super::{Files, cluster};
use crate::http::certificates::{CHAIN, KEY};
use crate::http::setting::{GATEWAY, Route, Setting, Version};

pub(crate) const FILE: &str = "envoy.json";
/// What it follows, where certificates are replaced.
const FOLLOWED: &str = "certificates.json";

const KINDS: &str = "type.googleapis.com/envoy.extensions";

pub(crate) fn files(setting: &Setting, dir: &Path, certificates: &Path) -> Files {
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
        chain["transport_socket"] = tls(setting, dir, certificates);
    }
    let clusters = setting.backends.iter().enumerate().map(|(place, at)| backend(setting, place, *at));
    let all = json!({
        "node": {"id": "bench", "cluster": "bench"},
        "static_resources": {
            "listeners": [{"name": "front", "address": address(GATEWAY), "filter_chains": [chain]}],
            "clusters": clusters.collect::<Vec<_>>(),
        },
    });
    let mut files = vec![(FILE, all.to_string())];
    if setting.changing {
        files.push((FOLLOWED, followed(setting, certificates).to_string()));
    }
    files
}

/// The certificates, each by its name. It looks at their files whenever one is moved to where they are.
fn followed(setting: &Setting, certificates: &Path) -> Value {
    let kind = format!("{KINDS}.transport_sockets.tls.v3.Secret");
    let secret = |name: &String| json!({"@type": kind, "name": name, "tls_certificate": certificate(certificates, name)});
    json!({"resources": setting.certificates.iter().map(secret).collect::<Vec<_>>()})
}

fn certificate(certificates: &Path, name: &str) -> Value {
    let dir = certificates.join(name);
    json!({"certificate_chain": {"filename": dir.join(CHAIN)}, "private_key": {"filename": dir.join(KEY)}})
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
fn tls(setting: &Setting, dir: &Path, certificates: &Path) -> Value {
    let alpn: &[&str] = match setting.front {
        Version::Http1 => &["http/1.1"],
        Version::Http2 => &["h2", "http/1.1"],
    };
    let mut common = json!({
        "alpn_protocols": alpn,
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
    });
    let names = setting.certificates.iter();
    if setting.changing {
        let source =
            json!({"path_config_source": {"path": dir.join(FOLLOWED)}, "resource_api_version": "V3"});
        let named = names.map(|name| json!({"name": name, "sds_config": source}));
        common["tls_certificate_sds_secret_configs"] = named.collect();
    } else {
        common["tls_certificates"] = names.map(|name| certificate(certificates, name)).collect();
    }
    let context = json!({
        "@type": format!("{KINDS}.transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": common,
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
