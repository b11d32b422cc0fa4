//! Servers behind gateways, clients in front of them, and certificates.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use causeway_testkit::kubectl::finish;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An HTTP server that answers every request with its name and what it was asked; its port.
pub(crate) fn backend(name: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(listener, name);
    port
}

/// The same, where somebody listens already.
pub(crate) fn serve(listener: TcpListener, name: &'static str) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, name));
        }
    });
}

/// Answers requests without bodies until the client goes.
fn answer(mut stream: TcpStream, name: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(count) if count > 0 => {}
                _ => return,
            }
            if line == "\r\n" {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        let body = format!("{name} {}\n", lines.join(" | "));
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// What curl gets, with these arguments: the body, and the status in a line of its own; empty if there is no answer.
pub(crate) fn curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-s", "-m", "10", "-w", "%{http_code}\n"]).args(args);
    let ran = finish(&mut command);
    if ran.code == Some(0) { ran.stdout } else { String::new() }
}

/// A Service in a namespace, or in files, with one endpoint on this machine.
pub(crate) fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{port: 80, targetPort: {port}}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
---
"
    )
}

/// An authority, and certificates by it.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With the name that its certificates have, OpenSSL would take those for signed by themselves.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A Secret with a certificate for this name, which tells itself from others by its serial number.
    pub(crate) fn secret(&self, secret: &str, host: &str, serial: u64) -> String {
        let (certificate, key) = self.certificate(host, |params| params.serial_number = Some(serial.into()));
        tls_secret(secret, &certificate.pem(), &key.serialize_pem())
    }

    /// A certificate for this name, and its key.
    pub(crate) fn certificate(
        &self,
        host: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate, key)
    }
}

/// A Secret with these texts for a certificate and its key.
pub(crate) fn tls_secret(name: &str, certificate: &str, key: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\ntype: kubernetes.io/tls\nstringData:\n  \
         tls.crt: |\n{}  tls.key: |\n{}",
        indented(certificate),
        indented(key)
    )
}

/// A text as a block of YAML.
pub(crate) fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |all, line| all + "    " + line + "\n")
}
