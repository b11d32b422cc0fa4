//! What each server is told: the same zone with 10,000 names and a wildcard, and where all else is asked, in its own language.
//! Logs are off, one thread everywhere.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::questions::{NAMES, SERVER, ZONE, address, name};
use super::responder::RESOLVER;

/// The address of the names under the wildcard.
const WILDCARD: &str = "10.2.0.1";

/// Names of files and what is in them.
pub(crate) type Files = Vec<(&'static str, String)>;

fn zone_file() -> String {
    let mut out = format!(
        "$ORIGIN {ZONE}.\n$TTL 30\n@ SOA ns hostmaster 1 3600 600 86400 30\n@ NS ns\nns A {}\n",
        SERVER.ip()
    );
    let _ = writeln!(out, "*.apps A {WILDCARD}");
    for place in 0..NAMES {
        let _ = writeln!(out, "h{place} A {}", address(place));
    }
    out
}

pub(crate) fn causeway() -> Files {
    let mut records: Vec<_> = (0..NAMES)
        .map(|place| json!({"name": name(place), "addresses": [address(place)], "reverse": false}))
        .collect();
    records.push(json!({"name": format!("*.apps.{ZONE}"), "addresses": [WILDCARD]}));
    let plan = json!({
        "binds": [SERVER.to_string()],
        "views": [{"name": "all", "sources": ["127.0.0.0/8"], "zones": [{"domain": ZONE, "records": records}]}],
        "forward": {"upstreams": [{"address": RESOLVER.to_string()}]},
    });
    vec![("plan.json", plan.to_string())]
}

pub(crate) fn knot(dir: &Path) -> Files {
    let (dir, ip, port) = (dir.display(), SERVER.ip(), SERVER.port());
    let conf = format!(
        "server:\n  rundir: \"{dir}\"\n  listen: {ip}@{port}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         log:\n- target: stderr\n  any: error\n\
         database:\n  storage: \"{dir}\"\n\
         zone:\n- domain: {ZONE}\n  storage: \"{dir}\"\n  file: zone\n"
    );
    vec![("knot.conf", conf), ("zone", zone_file())]
}

pub(crate) fn bind(dir: &Path) -> Files {
    let (dir, ip, port) = (dir.display(), SERVER.ip(), SERVER.port());
    let (to, at) = (RESOLVER.ip(), RESOLVER.port());
    let conf = format!(
        "options {{ directory \"{dir}\"; pid-file none; session-keyfile \"{dir}/session.key\"; listen-on port {port} {{ {ip}; }}; \
         listen-on-v6 {{ none; }}; recursion yes; allow-query {{ any; }}; forward only; forwarders {{ {to} port {at}; }}; \
         dnssec-validation no; minimal-responses yes; tcp-clients 1000; querylog no; }};\n\
         controls {{ }};\nlogging {{ category default {{ null; }}; }};\n\
         zone \"{ZONE}\" {{ type primary; file \"{dir}/zone\"; }};\n"
    );
    vec![("named.conf", conf), ("zone", zone_file())]
}

pub(crate) fn unbound(dir: &Path) -> Files {
    let (dir, ip, port) = (dir.display(), SERVER.ip(), SERVER.port());
    let mut conf = format!(
        "server:\n  interface: {ip}@{port}\n  username: \"\"\n  chroot: \"\"\n  directory: \"{dir}\"\n  pidfile: \"\"\n  \
         do-daemonize: no\n  use-syslog: no\n  verbosity: 0\n  num-threads: 1\n  access-control: 127.0.0.0/8 allow\n  \
         do-not-query-localhost: no\n  module-config: \"iterator\"\n  so-reuseport: no\n  incoming-num-tcp: 100\n  \
         local-zone: \"{ZONE}.\" static\n  \
         local-data: \"{ZONE}. 30 IN SOA ns.{ZONE}. hostmaster.{ZONE}. 1 3600 600 86400 30\"\n  \
         local-zone: \"apps.{ZONE}.\" redirect\n  local-data: \"apps.{ZONE}. 30 IN A {WILDCARD}\"\n"
    );
    for place in 0..NAMES {
        let _ = writeln!(conf, "  local-data: \"{} 30 IN A {}\"", name(place), address(place));
    }
    let _ =
        writeln!(conf, "forward-zone:\n  name: \".\"\n  forward-addr: {}@{}", RESOLVER.ip(), RESOLVER.port());
    vec![("unbound.conf", conf)]
}

pub(crate) fn dnsmasq(dir: &Path) -> Files {
    let (ip, port) = (SERVER.ip(), SERVER.port());
    let hosts = dir.join("hosts");
    let conf = format!(
        "listen-address={ip}\nbind-interfaces\nport={port}\nno-hosts\naddn-hosts={}\nno-resolv\nserver={}#{}\n\
         local=/{ZONE}/\naddress=/apps.{ZONE}/{WILDCARD}\ncache-size=10000\nlocal-ttl=30\nuser=root\npid-file=\n",
        hosts.display(),
        RESOLVER.ip(),
        RESOLVER.port()
    );
    let mut lines = String::new();
    for place in 0..NAMES {
        let _ = writeln!(lines, "{} {}", address(place), name(place));
    }
    vec![("dnsmasq.conf", conf), ("hosts", lines)]
}

pub(crate) fn coredns(dir: &Path) -> Files {
    let (ip, port) = (SERVER.ip(), SERVER.port());
    let conf = format!(
        "{ZONE}:{port} {{\n  bind {ip}\n  file {}\n}}\n.:{port} {{\n  bind {ip}\n  cache 3600\n  forward . {RESOLVER}\n}}\n",
        dir.join("zone").display()
    );
    vec![("Corefile", conf), ("zone", zone_file())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_told_of_every_name() {
        let dir = Path::new("/scratch");
        for files in [causeway(), knot(dir), bind(dir), unbound(dir), dnsmasq(dir), coredns(dir)] {
            let text: String = files.iter().map(|(_, text)| text.as_str()).collect();
            for wanted in [WILDCARD.to_owned(), format!("h{}", NAMES - 1), address(NAMES - 1).to_string()] {
                assert!(text.contains(&wanted), "{wanted} is missing in {}", files[0].0);
            }
        }
    }
}
