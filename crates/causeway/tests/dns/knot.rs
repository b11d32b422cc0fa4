//! Knot, serving a zone file.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::port;
use tempfile::TempDir;

use crate::server::dig;

/// Ended when it is dropped.
pub(crate) struct Knot {
    child: Child,
    _directory: TempDir,
    pub(crate) address: SocketAddr,
}

impl Knot {
    /// Serves `lab.test` from the text of a zone file.
    pub(crate) fn start(zone: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, port) = (directory.path().display(), port::free());
        std::fs::write(directory.path().join("lab.test.zone"), zone).unwrap();
        let config = format!(
            "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{port}\n\
             log:\n- target: stderr\n  any: error\n\
             database:\n  storage: \"{path}\"\n\
             zone:\n- domain: lab.test\n  storage: \"{path}\"\n  file: lab.test.zone\n"
        );
        std::fs::write(directory.path().join("knot.conf"), config).unwrap();
        let mut command = Command::new("/usr/sbin/knotd");
        let child =
            command.arg("-c").arg(directory.path().join("knot.conf")).stdout(Stdio::null()).spawn().unwrap();
        let knot = Self { child, _directory: directory, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        eventually("Knot answers", PATIENCE, || {
            dig(knot.address, "+short soa lab.test").contains("hostmaster")
        });
        knot
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
