//! TLS to the endpoints of a cluster: whom they must prove to be, and who this engine is to them. There is no way around
//! it: what can't be proven is no connection.

mod verifier;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use causeway_ir::tls::UpstreamTls;
use causeway_ir::{Address, HttpVersion};
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use super::{Certificate, TlsStream};
use crate::tcp::{Carries, Socket};
use verifier::Verifier;

/// TLS to the endpoints of a cluster. Sessions are resumed.
pub(crate) struct Upstream {
    server_name: Option<ServerName<'static>>,
    /// The endpoint says a byte when what it stands in front of is reached.
    confirms: bool,
    requests: Arc<ClientConfig>,
    /// For requests that go on in HTTP/2 and in nothing else.
    streams: Arc<ClientConfig>,
    bytes: Arc<ClientConfig>,
}

/// Why there is no TLS with an endpoint.
#[derive(Debug, thiserror::Error)]
#[error("TLS with the endpoint failed: {0}")]
pub(crate) struct Failed(String);

impl Failed {
    /// As an error of the connection.
    pub(crate) fn error(why: impl Into<String>) -> io::Error {
        io::Error::other(Self(why.into()))
    }

    /// Whether this is why a connection failed.
    pub(crate) fn is_cause(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

impl Upstream {
    pub(super) fn new(
        planned: &UpstreamTls,
        version: HttpVersion,
        roots: Arc<RootCertStore>,
        shown: Option<&Certificate>,
        provider: &Arc<CryptoProvider>,
    ) -> Option<Self> {
        let server_name = match &planned.server_name {
            Some(name) => Some(ServerName::try_from(name.to_string()).ok()?),
            None => None,
        };
        let verifier = Verifier::new(roots, &planned.subject_names, provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let bytes = match shown {
            Some(certificate) => {
                builder.with_client_cert_resolver(Arc::new(Shown(Arc::clone(&certificate.key))))
            }
            None => builder.with_no_client_auth(),
        };
        let offering = |version: HttpVersion| {
            let mut config = bytes.clone();
            config.alpn_protocols = protocols(version).iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        let (requests, streams) = (offering(version), offering(HttpVersion::Http2));
        let confirms = planned.confirms;
        Some(Self { server_name, confirms, requests, streams, bytes: Arc::new(bytes) })
    }

    /// Whether the name to ask for is that of the request.
    pub(crate) fn is_named_by_request(&self) -> bool {
        self.server_name.is_none()
    }

    /// Makes a connection to an endpoint a secure one.
    ///
    /// # Errors
    /// If the endpoint leaves, does not prove who it is, or does not confirm what it has to.
    ///
    /// # Cancellation
    /// Dropping the future closes the connection.
    pub(crate) async fn connect(
        &self,
        socket: Socket,
        address: &Address,
        carries: Carries<'_>,
    ) -> io::Result<TlsStream> {
        let config = match carries {
            Carries::Requests { version: HttpVersion::Http2, .. } => &self.streams,
            Carries::Requests { .. } => &self.requests,
            Carries::Bytes { .. } => &self.bytes,
        };
        let name = self.name(carries.server_name(), address)?;
        let connecting = TlsStream::connect(socket, Arc::clone(config), name);
        let stream = connecting.await.map_err(|error| Failed::error(error.to_string()))?;
        if self.confirms {
            let heard = poll_fn(|cx| stream.poll_receive(cx, &mut [0])).await;
            match heard {
                Ok(received) if received.count == 1 => {}
                Ok(_) => return Err(Failed::error("it reaches nobody")),
                Err(error) => return Err(Failed::error(error.to_string())),
            }
        }
        Ok(stream)
    }

    /// Whom the endpoint must prove to be: who the plan says, or who was asked for, or who has its address.
    fn name(&self, wanted: Option<&str>, address: &Address) -> io::Result<ServerName<'static>> {
        if let Some(name) = &self.server_name {
            return Ok(name.clone());
        }
        match (wanted.filter(|name| !name.is_empty()), address) {
            (Some(name), _) => {
                let bare = name.trim_start_matches('[').trim_end_matches(']');
                ServerName::try_from(bare.to_owned())
                    .map_err(|_| Failed::error("the request's host is no name that a certificate can have"))
            }
            (None, Address::Socket(address)) => Ok(address.ip().into()),
            (None, _) => Err(Failed::error("nobody has named a server: say `serverName` in the cluster")),
        }
    }
}

/// What is offered to endpoints that get requests.
fn protocols(version: HttpVersion) -> &'static [&'static [u8]] {
    match version {
        HttpVersion::Http2 => &[b"h2"],
        HttpVersion::Http1 | HttpVersion::Same => &[b"http/1.1"],
        HttpVersion::Auto => &[b"h2", b"http/1.1"],
    }
}

/// Shows one certificate to whoever asks.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesClientCert for Shown {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
