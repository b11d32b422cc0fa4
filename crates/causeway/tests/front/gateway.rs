//! A gateway from files with a port in clear text and one with TLS, and a route to servers of this machine.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::port;
use causeway_testkit::server::program;
use tempfile::TempDir;

/// One that runs. Killed if it is dropped.
pub(crate) struct Gateway {
    child: Child,
    dir: TempDir,
    pub(crate) plain: u16,
    pub(crate) secure: u16,
}

impl Gateway {
    /// With a route of this kind, to a server for each path.
    pub(crate) fn start(kind: &str, servers: &[(&str, u16)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (plain, secure) = (port::free(), port::free());
        let mut text = format!(
            "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: causeway
  listeners:
  - {{name: plain, port: {plain}, protocol: HTTP}}
  - {{name: secure, port: {secure}, protocol: HTTPS, tls: {{certificateRefs: [{{name: site}}]}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: all}}
spec:
  parentRefs: [{{name: web}}]
  rules:
"
        );
        for (path, port) in servers {
            let matches = match kind {
                "HTTPRoute" => format!("matches: [{{path: {{type: PathPrefix, value: {path}}}}}], "),
                _ => String::new(),
            };
            writeln!(text, "  - {{{matches}backendRefs: [{{name: server-{port}, port: {port}}}]}}").unwrap();
        }
        for (_, port) in servers {
            write!(
                text,
                "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: server-{port}}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"
            )
            .unwrap();
        }
        let site = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let secret = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "site"}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": site.cert.pem(), "tls.key": site.signing_key.serialize_pem()},
        });
        std::fs::write(dir.path().join("all.yaml"), format!("{text}---\n{secret}\n")).unwrap();
        let mut command = Command::new(program());
        command.args(["gateway", "--files"]).arg(dir.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let gateway = Self { child, dir, plain, secure };
        std::fs::write(gateway.authority(), site.cert.pem()).unwrap();
        for url in [format!("http://localhost:{plain}/"), format!("https://localhost:{secure}/")] {
            eventually(&format!("{url} answers"), PATIENCE, || {
                let mut curl = Command::new("curl");
                finish(curl.args(["-s", "-m", "10", &url, "--cacert"]).arg(gateway.authority())).code
                    == Some(0)
            });
        }
        gateway
    }

    /// The file of the certificate to trust.
    pub(crate) fn authority(&self) -> PathBuf {
        self.dir.path().join("authority.pem")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
