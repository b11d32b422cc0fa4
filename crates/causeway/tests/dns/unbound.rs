//! Unbound, as a resolver that knows `up.test`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::port;
use tempfile::TempDir;

use crate::server::{dig, kdig};

/// Ended when it is dropped.
pub(crate) struct Unbound {
    child: Child,
    directory: TempDir,
    tls: bool,
    pub(crate) address: SocketAddr,
}

impl Unbound {
    pub(crate) fn start() -> Self {
        Self::new(None, None)
    }

    /// Asks this server for whatever it does not know.
    pub(crate) fn that_forwards_to(server: SocketAddr) -> Self {
        Self::new(None, Some(server))
    }

    /// Answers by TLS alone, with this certificate and key.
    pub(crate) fn with_tls(certificate: &str, key: &str) -> Self {
        Self::new(Some((certificate, key)), None)
    }

    fn new(tls: Option<(&str, &str)>, forward: Option<SocketAddr>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, port) = (directory.path().display(), port::free());
        let mut config = format!(
            "server:\n  interface: 127.0.0.1@{port}\n  username: \"\"\n  chroot: \"\"\n  directory: \"{path}\"\n  \
             pidfile: \"\"\n  do-daemonize: no\n  use-syslog: no\n  access-control: 127.0.0.0/8 allow\n  \
             local-zone: \"up.test.\" static\n  \
             local-data: \"up.test. 60 IN SOA ns.up.test. hostmaster.up.test. 1 2 3 4 20\"\n  \
             local-data: \"www.up.test. 60 IN A 192.0.2.1\"\n  \
             local-data: \"www.up.test. 60 IN AAAA 2001:db8::1\"\n  \
             local-data: \"short.up.test. 1 IN A 192.0.2.2\"\n"
        );
        for number in 0..200 {
            writeln!(config, "  local-data: \"many.up.test. 60 IN A 198.51.100.{number}\"").unwrap();
        }
        if let Some((certificate, key)) = tls {
            std::fs::write(directory.path().join("cert.pem"), certificate).unwrap();
            std::fs::write(directory.path().join("key.pem"), key).unwrap();
            writeln!(config, "  tls-service-pem: \"{path}/cert.pem\"").unwrap();
            writeln!(config, "  tls-service-key: \"{path}/key.pem\"\n  tls-port: {port}").unwrap();
        }
        if let Some(server) = forward {
            writeln!(config, "  do-not-query-localhost: no\nforward-zone:\n  name: \".\"").unwrap();
            writeln!(config, "  forward-addr: {}@{}", server.ip(), server.port()).unwrap();
        }
        std::fs::write(directory.path().join("unbound.conf"), config).unwrap();
        let child = spawn(&directory);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let unbound = Self { child, directory, tls: tls.is_some(), address };
        unbound.wait();
        unbound
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.directory);
        self.wait();
    }

    fn wait(&self) {
        eventually("Unbound answers", PATIENCE, || {
            let said = if self.tls {
                kdig(self.address, "+tls +short www.up.test")
            } else {
                dig(self.address, "+short www.up.test")
            };
            said.contains("192.0.2.1")
        });
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(directory: &TempDir) -> Child {
    let mut command = Command::new("/usr/sbin/unbound");
    command.args(["-d", "-c"]).arg(directory.path().join("unbound.conf"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
