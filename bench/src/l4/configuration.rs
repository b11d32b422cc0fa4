//! What each proxy is told: the same two listeners, one by server name and one plain, in its own language. Access
//! logs are off and idle connections stay, everywhere.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use serde_json::json;

use crate::compare::names::{Names, PLAIN_BACKEND, backends};

/// Where every proxy listens for TLS.
pub(crate) const SNI: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7443);
/// Where every proxy listens for anything.
pub(crate) const PLAIN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7080);

/// Our engine's pipes, so that HAProxy gets the same.
const PIPE: usize = 256 << 10;

/// When HAProxy splices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Splice {
    Forced,
    Auto,
}

/// Names of files and what is in them.
pub(crate) type Files = Vec<(&'static str, String)>;

/// The clusters of a configuration: a name and an address each.
fn clusters() -> impl Iterator<Item = (String, SocketAddrV4)> {
    let named = backends().into_iter().enumerate().map(|(i, address)| (cluster(i), address));
    std::iter::once(("plain".to_owned(), PLAIN_BACKEND)).chain(named)
}

fn cluster(backend: usize) -> String {
    format!("b{backend}")
}

pub(crate) fn causeway(names: &Names) -> anyhow::Result<Files> {
    let routes: Vec<_> = names
        .iter()
        .map(|n| json!({"name": n.name, "serverNames": [n.name], "action": {"forward": cluster(n.backend)}}))
        .collect();
    let clusters: Vec<_> = clusters()
        .map(|(name, address)| json!({"name": name, "endpoints": [{"address": address.to_string()}]}))
        .collect();
    let plan = json!({
        "listeners": [
            {"name": "sni", "bind": SNI.to_string(), "protocol": {"tls": {"routes": routes}}},
            {"name": "plain", "bind": PLAIN.to_string(),
             "protocol": {"tcp": {"name": "all", "action": {"forward": "plain"}}}},
        ],
        "clusters": clusters,
    });
    Ok(vec![("plan.json", serde_json::to_string_pretty(&plan)?)])
}

pub(crate) fn envoy(names: &Names) -> Files {
    let proxy = |cluster: &str| {
        let kind = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
        format!(
            "[{{name: envoy.filters.network.tcp_proxy, typed_config: {{\"@type\": {kind}, stat_prefix: p, cluster: {cluster}}}}}]"
        )
    };
    let address =
        |at: SocketAddrV4| format!("{{socket_address: {{address: {}, port_value: {}}}}}", at.ip(), at.port());
    let inspector = "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";
    let mut out = format!(
        "static_resources:\n  listeners:\n  - name: sni\n    address: {}\n    listener_filters:\n    \
         - name: envoy.filters.listener.tls_inspector\n      typed_config: {{\"@type\": {inspector}}}\n    \
         filter_chains:\n",
        address(SNI)
    );
    for n in names.iter() {
        let _ = writeln!(
            out,
            "    - filter_chain_match: {{server_names: [{}]}}\n      filters: {}",
            n.name,
            proxy(&cluster(n.backend))
        );
    }
    let _ = writeln!(
        out,
        "  - name: plain\n    address: {}\n    filter_chains:\n    - filters: {}\n  clusters:",
        address(PLAIN),
        proxy("plain")
    );
    for (name, at) in clusters() {
        let most = "max_connections: 1000000, max_pending_requests: 1000000, max_requests: 1000000";
        let _ = writeln!(
            out,
            "  - name: {name}\n    type: STATIC\n    connect_timeout: 5s\n    \
             circuit_breakers: {{thresholds: [{{{most}}}]}}\n    \
             load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {}}}}}]}}]}}",
            address(at)
        );
    }
    vec![("envoy.yaml", out)]
}

pub(crate) fn haproxy(names: &Names, splice: Splice, dir: &Path) -> Files {
    let options = match splice {
        Splice::Forced => "  option splice-request\n  option splice-response\n",
        Splice::Auto => "  option splice-auto\n",
    };
    let map = dir.join("names.map");
    let mut out = format!(
        "global\n  nbthread 2\n  maxconn 9700\n  maxpipes 120\n  tune.pipesize {PIPE}\n\
         defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n{options}\
         frontend sni\n  bind {SNI}\n  tcp-request inspect-delay 5s\n  \
         tcp-request content accept if {{ req.ssl_hello_type 1 }}\n  \
         use_backend %[req.ssl_sni,lower,map({},none)]\n\
         frontend plain\n  bind {PLAIN}\n  default_backend plain\nbackend none\n",
        map.display()
    );
    for (name, address) in clusters() {
        let _ = writeln!(out, "backend {name}\n  server s {address}");
    }
    let mut lines = String::new();
    for n in names.iter() {
        let _ = writeln!(lines, "{} {}", n.name, cluster(n.backend));
    }
    vec![("haproxy.cfg", out), ("names.map", lines)]
}

pub(crate) fn nginx(names: &Names, dir: &Path) -> Files {
    let backends = backends();
    let mut map = String::new();
    for n in names.iter() {
        let _ = writeln!(map, "    {} {};", n.name, backends[n.backend]);
    }
    let buckets = (2 * names.len()).next_power_of_two().max(65_536);
    let out = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\nuser root;\nworker_processes 2;\ndaemon off;\n\
         pid {};\nerror_log stderr crit;\nworker_rlimit_nofile 19990;\nevents {{ worker_connections 12000; }}\n\
         stream {{\n  map_hash_max_size {buckets};\n  map_hash_bucket_size 128;\n  \
         map $ssl_preread_server_name $up {{\n{map}  }}\n  \
         server {{ listen {SNI} reuseport backlog=4096; ssl_preread on; proxy_pass $up; }}\n  \
         server {{ listen {PLAIN} reuseport backlog=4096; proxy_pass {PLAIN_BACKEND}; }}\n}}\n",
        dir.join("nginx.pid").display()
    );
    vec![("nginx.conf", out)]
}

pub(crate) fn traefik(names: &Names, dir: &Path) -> Files {
    let main = format!(
        "global: {{checkNewVersion: false, sendAnonymousUsage: false}}\nlog: {{level: ERROR}}\n\
         entryPoints:\n  sni: {{address: \"{SNI}\"}}\n  plain: {{address: \"{PLAIN}\"}}\n\
         providers:\n  file: {{filename: {}, watch: false}}\n",
        dir.join("dynamic.yml").display()
    );
    let mut out = String::from(
        "tcp:\n  routers:\n    plain: {rule: \"HostSNI(`*`)\", entryPoints: [plain], service: plain}\n",
    );
    for (i, n) in names.iter().enumerate() {
        let _ = writeln!(
            out,
            "    r{i}: {{rule: \"HostSNI(`{}`)\", entryPoints: [sni], service: {}, tls: {{passthrough: true}}}}",
            n.name,
            cluster(n.backend)
        );
    }
    out.push_str("  services:\n");
    for (name, address) in clusters() {
        let _ = writeln!(out, "    {name}: {{loadBalancer: {{servers: [{{address: \"{address}\"}}]}}}}");
    }
    vec![("traefik.yml", main), ("dynamic.yml", out)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_proxy_is_told_of_every_name_and_backend() {
        let names = Names::new(3).unwrap();
        let dir = Path::new("/scratch");
        for files in [
            causeway(&names).unwrap(),
            envoy(&names),
            haproxy(&names, Splice::Forced, dir),
            nginx(&names, dir),
            traefik(&names, dir),
        ] {
            let text: String = files.iter().map(|(_, text)| text.as_str()).collect();
            for n in names.iter() {
                assert!(text.contains(&n.name), "{} is missing in {}", n.name, files[0].0);
            }
            for address in backends().into_iter().chain([PLAIN_BACKEND]) {
                // Envoy writes address and port apart.
                assert!(text.contains(&address.ip().to_string()), "{address} is missing in {}", files[0].0);
            }
        }
    }
}
