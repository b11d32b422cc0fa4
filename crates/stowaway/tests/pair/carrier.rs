//! A carrier: plain TLS with a client certificate, and a server name that says where to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_link::{Authority, Identity, Role};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub struct Carrier {
    pub config: Arc<ClientConfig>,
}

impl Carrier {
    pub fn new(authority: &Authority, name: &str) -> Self {
        let identity = authority.issue(Role::Dialer, name).expect("keys");
        Self::with(authority, Some(&identity))
    }

    /// One that trusts `authority` and shows another's certificate, or none.
    pub fn with(authority: &Authority, shown: Option<&Identity>) -> Self {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).expect("a root"))
            .expect("fits");
        let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), default_provider().into());
        let builder = ClientConfig::builder_with_provider(default_provider().into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("fits")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Named(inner.build().expect("fits"))));
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain =
                    CertificateDer::from_pem_slice(identity.certificate().as_bytes()).expect("a certificate");
                let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![chain], key).expect("fits")
            }
        };
        Self { config: Arc::new(config) }
    }

    pub fn speaking(mut self, protocols: &[&str]) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    /// Asks for `name`, which stands in front of the domain.
    pub async fn ask(&self, hub: SocketAddr, name: &str) -> io::Result<TlsStream<TcpStream>> {
        self.ask_for(hub, &format!("{name}.workstation.causeway")).await
    }

    pub async fn ask_for(&self, hub: SocketAddr, name: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let socket = TcpStream::connect(hub).await?;
        let mut stream = TlsConnector::from(self.config.clone()).connect(name, socket).await?;
        // Nobody is reached before it is said.
        stream.read_u8().await?;
        Ok(stream)
    }
}

/// As the engine does: asks for one name and expects another in the certificate.
#[derive(Debug)]
struct Named(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let name = ServerName::try_from("stowaway.link.causeway.internal").expect("a name");
        self.0.verify_server_cert(end_entity, intermediates, &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
