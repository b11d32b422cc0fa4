//! HAProxy.

use std::fmt::Write;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, ensure};

use super::{Files, cluster};
use crate::http::certificates::BOTH;
use crate::http::setting::{GATEWAY, Setting, Version};

pub(crate) const FILE: &str = "haproxy.cfg";
const CERTIFICATES: &str = "certificates.list";
const ROUTES: &str = "routes.map";
const ADMIN: &str = "admin.sock";

pub(crate) fn files(setting: &Setting, dir: &Path, certificates: &Path) -> Files {
    let mut bind = GATEWAY.to_string();
    let (tls, second) = (setting.has_tls(), setting.front == Version::Http2);
    if tls {
        let alpn = if second { "h2,http/1.1" } else { "http/1.1" };
        let _ = write!(bind, " ssl crt-list {} alpn {alpn}", dir.join(CERTIFICATES).display());
    } else if second {
        bind.push_str(" proto h2");
    }
    let scheme = if tls { "https" } else { "http" };
    let admin = if setting.changing {
        format!("  stats socket {} mode 600 level admin\n", dir.join(ADMIN).display())
    } else {
        String::new()
    };
    let mut out = format!(
        "global\n  nbthread 1\n  maxconn 9700\n  ssl-default-bind-options ssl-min-ver TLSv1.3\n{admin}\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n  \
         timeout http-keep-alive 1h\n  http-reuse always\n  option forwardfor\n\
         frontend front\n  bind {bind}\n  http-request set-header X-Forwarded-Proto {scheme}\n  \
         http-request set-header X-Forwarded-Host %[req.hdr(host)]\n"
    );
    let mut map = String::new();
    if setting.routes.len() > 1 {
        let _ = writeln!(out, "  use_backend %[base,map_beg({})]", dir.join(ROUTES).display());
        for route in &setting.routes {
            let host = route.host.as_deref().unwrap_or_default();
            let _ = writeln!(map, "{host}{} {}", route.prefix, cluster(route.backend));
        }
    } else {
        // A path that begins with `/` is every path.
        let _ = writeln!(out, "  use_backend {} if {{ path_beg / }}", cluster(0));
    }
    let speaks = if setting.back == Version::Http2 { " proto h2" } else { "" };
    for (place, address) in setting.backends.iter().enumerate() {
        let _ = writeln!(out, "backend {}\n  server s {address}{speaks}", cluster(place));
    }
    let mut list = String::new();
    for name in &setting.certificates {
        let _ = writeln!(list, "{}", certificates.join(name).join(BOTH).display());
    }
    vec![(FILE, out), (CERTIFICATES, list), (ROUTES, map)]
}

/// Gives a running one what is in the file of a certificate now.
pub(crate) fn replace(dir: &Path, certificate: &Path) -> anyhow::Result<()> {
    let file = certificate.join(BOTH);
    let (text, file) = (std::fs::read_to_string(&file)?, file.display());
    let commands = [
        (format!("set ssl cert {file} <<\n{}\n\n", text.trim_end()), "Transaction "),
        (format!("commit ssl cert {file}\n"), "Success"),
    ];
    for (command, expected) in commands {
        let said = ask(dir, &command)?;
        ensure!(said.contains(expected), "HAProxy takes no other certificate: {}", said.trim());
    }
    Ok(())
}

/// What it answers to a command.
fn ask(dir: &Path, command: &str) -> anyhow::Result<String> {
    let mut socket = UnixStream::connect(dir.join(ADMIN)).context("can't reach HAProxy's socket")?;
    socket.write_all(command.as_bytes())?;
    socket.shutdown(Shutdown::Write)?;
    let mut said = String::new();
    socket.read_to_string(&mut said)?;
    Ok(said)
}
