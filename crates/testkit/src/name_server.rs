//! Knot and BIND as primary servers of a zone that may be updated with a key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use crate::spawned::Spawned;
use crate::{peer, port};

/// The name of the key that may update.
pub const KEY: &str = "causeway-key";
/// Its secret, for HMAC with SHA-256.
pub const SECRET: &str = "dGhlIGtleSB0aGF0IG1heSB1cGRhdGUgdGhlIHpvbmU=";
/// The name of a key that the server knows, and that may do nothing.
pub const POWERLESS: &str = "powerless-key";

/// The label below which BIND takes no updates of the key.
pub const FORBIDDEN: &str = "forbidden";

/// The servers that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    Knot,
    Bind,
}

/// A running server.
pub struct NameServer {
    running: Spawned,
    domain: String,
    pub address: SocketAddr,
}

impl NameServer {
    /// Serves `domain` with these lines of a zone file, besides SOA and NS. Where the software can't be had there is none, and
    /// the test is skipped by name.
    ///
    /// # Panics
    /// When it does not start, and where it can't be had although `CI=true`.
    pub fn start(software: Software, domain: &str, lines: &str) -> Option<Self> {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), software, domain, lines)
    }

    /// The same on another address of this machine.
    ///
    /// # Panics
    /// As there.
    pub fn start_on(host: IpAddr, software: Software, domain: &str, lines: &str) -> Option<Self> {
        let (program, package) = match software {
            Software::Knot => ("/usr/sbin/knotd", "knot"),
            Software::Bind => ("/usr/sbin/named", "bind9"),
        };
        if !PathBuf::from(program).is_file() {
            peer::skip(&format!("{program} is not installed (Debian: {package})"));
            return None;
        }
        let directory = tempfile::Builder::new().prefix("causeway-names-").tempdir().unwrap();
        let (path, port) = (directory.path().display(), port::free());
        let zone = format!(
            "$ORIGIN {domain}.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 5\n@ NS ns\nns A {host}\n{lines}\n"
        );
        std::fs::write(directory.path().join("zone"), zone).unwrap();
        let mut command = Command::new(program);
        let config = match software {
            Software::Knot => {
                command.arg("-c");
                format!(
                    "server:\n  rundir: \"{path}\"\n  listen: {host}@{port}\n\
                     log:\n- target: stderr\n  any: info\n\
                     database:\n  storage: \"{path}\"\n\
                     key:\n- id: {KEY}\n  algorithm: hmac-sha256\n  secret: {SECRET}\n\
                     - id: {POWERLESS}\n  algorithm: hmac-sha256\n  secret: {SECRET}\n\
                     acl:\n- id: update\n  key: {KEY}\n  action: [update, transfer]\n\
                     zone:\n- domain: {domain}\n  storage: \"{path}\"\n  file: zone\n  acl: update\n"
                )
            }
            Software::Bind => {
                command.args(["-g", "-n", "1", "-c"]);
                format!(
                    "options {{ directory \"{path}\"; listen-on port {port} {{ {host}; }}; listen-on-v6 {{ none; }};\n\
                     pid-file none; session-keyfile none; recursion no; dnssec-validation no; notify no; }};\n\
                     controls {{ }};\n\
                     key {KEY} {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
                     key {POWERLESS} {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
                     zone {domain} {{ type primary; file \"zone\"; update-policy {{ \
                     deny {KEY} subdomain {FORBIDDEN}.{domain} ANY; grant {KEY} zonesub ANY; }}; }};\n"
                )
            }
        };
        let file = directory.path().join("conf");
        std::fs::write(&file, config).unwrap();
        let address = SocketAddr::new(host, port);
        let ready = || answers(address, domain);
        let running = Spawned::start(directory, command.arg(file), ready);
        Some(Self { running, domain: domain.to_owned(), address })
    }

    /// A secondary of Knot's, which has the zone as it is now and hears of no change until [`Self::catch_up`].
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn secondary(primary: &Self, domain: &str) -> Option<Self> {
        let program = PathBuf::from("/usr/sbin/knotd");
        if !program.is_file() {
            peer::skip("/usr/sbin/knotd is not installed (Debian: knot)");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("causeway-names-").tempdir().unwrap();
        let (path, port) = (directory.path().display(), port::free());
        let config = format!(
            "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\n\
             log:\n- target: stderr\n  any: info\n\
             database:\n  storage: \"{path}\"\n\
             key:\n- id: {KEY}\n  algorithm: hmac-sha256\n  secret: {SECRET}\n\
             remote:\n- id: primary\n  address: 127.0.0.1@{}\n  key: {KEY}\n\
             zone:\n- domain: {domain}\n  storage: \"{path}\"\n  file: zone\n  master: primary\n",
            primary.address.port()
        );
        let file = directory.path().join("conf");
        std::fs::write(&file, config).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = Command::new(program);
        let running = Spawned::start(directory, command.arg("-c").arg(file), || answers(address, domain));
        Some(Self { running, domain: domain.to_owned(), address })
    }

    /// It as a HostnameZone of that name, with the key for it, as manifests; `certificates` are the fields of who issues them.
    pub fn manifests(&self, zone: &str, certificates: &str) -> String {
        let Self { domain, address, .. } = self;
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {zone}-key, namespace: causeway-system}}\n\
             stringData: {{keyName: {KEY}, algorithm: hmac-sha256, secret: {SECRET}}}\n---\n\
             apiVersion: causeway.dev/v1alpha1\nkind: HostnameZone\nmetadata: {{name: {zone}}}\n\
             spec:\n  zoneId: {domain}\n  domain: {domain}\n  gatewayClass: causeway\n  \
             dns: {{provider: rfc2136, server: '{address}', credentialsSecret: {zone}-key}}\n  \
             certificates: {{{certificates}}}\n"
        )
    }

    /// The names in its zone, as others see them, without those that are there from the start.
    pub fn names(&self) -> Vec<String> {
        let (key, domain) = (format!("hmac-sha256:{KEY}:{SECRET}"), self.domain.as_str());
        let all = dig(self.address, &["-y", &key, "axfr", domain]);
        let lines = all.lines().filter(|line| !line.starts_with(';') && !line.trim().is_empty());
        let names =
            lines.filter_map(|line| line.split_whitespace().next()).map(|name| name.trim_end_matches('.'));
        let own = format!("ns.{domain}");
        let mut names: Vec<String> = names
            .filter(|name| ![domain, &own].contains(name) && !name.contains(KEY))
            .map(ToOwned::to_owned)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Lets a secondary of Knot's ask its primary now.
    ///
    /// # Panics
    /// When it can't be told.
    pub fn catch_up(&self) {
        let socket = self.running.path().join("knot.sock");
        let mut command = Command::new("/usr/sbin/knotc");
        let output = command.arg("-s").arg(socket).arg("zone-refresh").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

fn answers(address: SocketAddr, domain: &str) -> bool {
    TcpStream::connect(address).is_ok() && dig(address, &["+short", "soa", domain]).contains("hostmaster")
}

/// What dig prints when it asks there.
pub fn dig(address: SocketAddr, question: &[&str]) -> String {
    let mut command = Command::new("dig");
    command.arg(format!("@{}", address.ip())).args(["-p", &address.port().to_string(), "+tcp", "+time=3"]);
    let output = command.args(question).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
