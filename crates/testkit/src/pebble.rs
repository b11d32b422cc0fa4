//! Pebble, an ACME authority for tests, which `scripts/test-deps.sh` builds and which may be missing on a user's machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use crate::spawned::Spawned;
use crate::{environment, port};

/// A running authority.
pub struct Pebble {
    running: Spawned,
    pub address: SocketAddr,
    /// Where it asks for answers to HTTP-01, on the address of the name.
    pub http_port: u16,
}

/// The id of an account that ours may be bound to, where that is wanted.
pub const EXTERNAL_ID: &str = "kid-1";
/// Its key.
pub const EXTERNAL_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

impl Pebble {
    /// Starts one that asks this server for names, and wants external accounts or not. Where it can't be had there is none, and
    /// the test is skipped by name.
    ///
    /// # Panics
    /// When it does not start, and where it can't be had although `CI=true`.
    pub fn start(resolver: SocketAddr, external: bool) -> Option<Self> {
        Self::launch(Ipv4Addr::LOCALHOST.into(), resolver, external, &[("default", 7_776_000)])
    }

    /// The same without external accounts, with a profile `minutes` beside the usual one. Whoever asks for none gets any of them.
    ///
    /// # Panics
    /// As there.
    pub fn with_profiles(resolver: SocketAddr) -> Option<Self> {
        let profiles = [("default", 7_776_000), ("minutes", 600)];
        Self::launch(Ipv4Addr::LOCALHOST.into(), resolver, false, &profiles)
    }

    /// The same without external accounts, on another address of this machine. Answers to HTTP-01 it asks for on the usual port.
    ///
    /// # Panics
    /// As there.
    pub fn start_on(host: IpAddr, resolver: SocketAddr) -> Option<Self> {
        Self::launch(host, resolver, false, &[("default", 7_776_000)])
    }

    /// The same, with certificates that are good for so many seconds.
    ///
    /// # Panics
    /// As there.
    pub fn brief(resolver: SocketAddr, seconds: u32) -> Option<Self> {
        Self::launch(Ipv4Addr::LOCALHOST.into(), resolver, false, &[("default", seconds)])
    }

    fn launch(host: IpAddr, resolver: SocketAddr, external: bool, profiles: &[(&str, u32)]) -> Option<Self> {
        let program = environment::program("pebble")?;
        let directory = tempfile::Builder::new().prefix("causeway-pebble-").tempdir().unwrap();
        let address = SocketAddr::new(host, port::free());
        // Many run on loopback.
        let http_port = if host.is_loopback() { port::free() } else { 80 };
        let mut openssl = Command::new("openssl");
        openssl.current_dir(directory.path()).args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", "key.pem", "-out", "cert.pem"]);
        openssl.args(["-subj", "/CN=pebble", "-addext", &format!("subjectAltName=DNS:localhost,IP:{host}")]);
        let made = openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let profile = |(name, seconds): &(&str, u32)| {
            format!("\"{name}\": {{\"description\": \"{name}\", \"validityPeriod\": {seconds}}}")
        };
        let profiles: Vec<String> = profiles.iter().map(profile).collect();
        let config = format!(
            "{{\"pebble\": {{\"listenAddress\": \"{address}\", \"managementListenAddress\": \"\", \
             \"certificate\": \"cert.pem\", \"privateKey\": \"key.pem\", \"httpPort\": {http_port}, \"tlsPort\": 1, \
             \"externalAccountBindingRequired\": {external}, \
             \"externalAccountMACKeys\": {{\"{EXTERNAL_ID}\": \"{EXTERNAL_KEY}\"}}, \
             \"retryAfter\": {{\"authz\": 1, \"order\": 1}}, \
             \"profiles\": {{{}}}}}}}",
            profiles.join(", ")
        );
        std::fs::write(directory.path().join("config.json"), config).unwrap();
        let mut command = Command::new(program);
        command.args(["-config", "config.json", "-strict", "-dnsserver", &resolver.to_string()]);
        command.env("PEBBLE_VA_NOSLEEP", "1");
        let running = Spawned::start(directory, &mut command, || TcpStream::connect(address).is_ok());
        Some(Self { running, address, http_port })
    }

    /// The address to begin with.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// The certificate that it shows by itself, as PEM.
    ///
    /// # Panics
    /// When it is gone.
    pub fn certificate(&self) -> String {
        std::fs::read_to_string(self.running.path().join("cert.pem")).unwrap()
    }

    /// It as the issuer of a HostnameZone, by proofs in DNS where nothing is added: the fields, for [`crate::name_server::NameServer::manifests`].
    pub fn issuer(&self, secret: &str) -> String {
        let directory = self.directory();
        format!(
            "issuer: acme, directory: '{directory}', credentialsSecret: {secret}, email: hostmaster@lab.test"
        )
    }

    /// A Secret by which it is known, as a manifest.
    ///
    /// # Panics
    /// When it is gone.
    pub fn manifest(&self, secret: &str) -> String {
        let certificate = self.certificate().replace('\n', "\n    ");
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {secret}, namespace: causeway-system}}\n\
             stringData:\n  ca.crt: |\n    {certificate}\n"
        )
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        self.running.log()
    }
}
