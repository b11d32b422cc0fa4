//! NGINX.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::{Files, cluster};
use crate::http::certificates::{CHAIN, KEY};
use crate::http::setting::{GATEWAY, LARGE, Route, Setting, Version};

pub(crate) const FILE: &str = "nginx.conf";

/// Requests on one connection, and connections kept for each backend.
const REQUESTS: u32 = 1_000_000_000;
const KEPT: u32 = 512;

pub(crate) fn files(setting: &Setting, dir: &Path, certificates: &Path) -> Files {
    let mut out = format!(
        "user root;\nworker_processes 1;\ndaemon off;\npid {};\nerror_log stderr crit;\nworker_rlimit_nofile 19990;\n\
         events {{ worker_connections 12000; }}\nhttp {{\n  access_log off;\n  keepalive_timeout 1h;\n  \
         keepalive_requests {REQUESTS};\n  server_names_hash_max_size 65536;\n  server_names_hash_bucket_size 128;\n",
        dir.join("nginx.pid").display()
    );
    let (module, scheme) = match setting.back {
        Version::Http1 => ("proxy", "http"),
        Version::Http2 => ("grpc", "grpc"),
    };
    if setting.back == Version::Http1 {
        out.push_str("  proxy_http_version 1.1;\n  proxy_set_header Connection \"\";\n");
    }
    for (name, value) in [
        ("Host", "$host"),
        ("X-Forwarded-For", "$remote_addr"),
        ("X-Forwarded-Proto", "$scheme"),
        ("X-Forwarded-Host", "$host"),
    ] {
        let _ = writeln!(out, "  {module}_set_header {name} {value};");
    }
    if setting.backends.contains(&LARGE) {
        // So that a body comes with one call.
        out.push_str("  proxy_buffer_size 32k;\n  proxy_buffers 4 32k;\n");
    }
    if setting.has_tls() {
        out.push_str("  ssl_protocols TLSv1.3;\n");
    }
    for (place, address) in setting.backends.iter().enumerate() {
        let _ = writeln!(
            out,
            "  upstream {} {{ server {address}; keepalive {KEPT}; keepalive_requests {REQUESTS}; keepalive_timeout 1h; }}",
            cluster(place)
        );
    }
    let location = |route: &&Route| {
        format!("location {} {{ {module}_pass {scheme}://{}; }}", route.prefix, cluster(route.backend))
    };
    let tls = if setting.has_tls() { " ssl" } else { "" };
    // Versions that prefer `http2 on` know this form, too.
    let http2 = if setting.front == Version::Http2 { " http2" } else { "" };
    // Options of the socket may stand once.
    let mut once = " backlog=4096";
    let mut server = |name: &str, certificate: Option<&str>, routes: &[&Route]| {
        let _ = write!(out, "  server {{ listen {GATEWAY}{tls}{http2}{once}; server_name {name};");
        if let Some(certificate) = certificate {
            let dir = certificates.join(certificate);
            let (chain, key) = (dir.join(CHAIN), dir.join(KEY));
            let _ =
                write!(out, " ssl_certificate {}; ssl_certificate_key {};", chain.display(), key.display());
        }
        let locations: Vec<String> = routes.iter().map(location).collect();
        let _ = writeln!(out, " {} }}", locations.join(" "));
        once = "";
    };
    for (host, routes) in setting.by_host() {
        if setting.certificates.is_empty() {
            server(host.unwrap_or("_"), None, &routes);
        }
        for name in &setting.certificates {
            server(name, Some(name), &routes);
        }
    }
    out.push_str("}\n");
    vec![(FILE, out)]
}

/// Makes a running one read its files again: the first of its processes starts others.
pub(crate) fn reload(pids: &[u32]) -> anyhow::Result<()> {
    let first = pids.first().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    kill_process(first.context("NGINX is gone")?, Signal::HUP).context("can't tell NGINX to look again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::workload::Workload;

    #[test]
    fn messages_go_by_grpc_and_options_of_the_socket_stand_once() {
        let of =
            |row| files(&Setting::of(row), Path::new("/scratch"), Path::new("/certificates")).remove(0).1;
        let messages = of(Workload::Grpc);
        assert!(messages.contains("location / { grpc_pass grpc://b0; }") && messages.contains(" http2 "));
        let certificates = of(Workload::Certificates);
        assert_eq!(certificates.matches("backlog").count(), 1);
        assert_eq!(certificates.matches("ssl_certificate_key").count(), 5000);
    }
}
