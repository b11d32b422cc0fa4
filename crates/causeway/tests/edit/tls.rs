//! A client that trusts one authority, and that authority.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Certificate and key for these names, in PEM.
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

#[derive(Clone)]
pub struct Client {
    proxy: SocketAddr,
    config: Arc<ClientConfig>,
}

impl Client {
    pub fn new(proxy: SocketAddr, authority: &Authority) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { proxy, config: Arc::new(config) }
    }

    /// A connection that stays open.
    pub fn open(&self, host: &str) -> Open {
        Open(self.connect(host).unwrap())
    }

    fn connect(&self, host: &str) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let socket = TcpStream::connect(self.proxy)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, socket))
    }

    /// Who answers an HTTP request for this host, on a connection of its own.
    pub fn ask(&self, host: &str) -> io::Result<String> {
        let mut stream = self.connect(host)?;
        stream.write_all(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        let first = body.and_then(|body| body.lines().next());
        first.map(ToOwned::to_owned).ok_or_else(|| io::Error::other(format!("not an answer: {answer:?}")))
    }
}

pub struct Open(StreamOwned<ClientConnection, TcpStream>);

impl Open {
    /// Sends bytes and checks that they come back.
    pub fn echo(&mut self, bytes: &[u8]) {
        let mut back = vec![0; bytes.len()];
        self.0.write_all(bytes).unwrap();
        self.0.read_exact(&mut back).unwrap();
        assert_eq!(back, bytes);
    }
}
