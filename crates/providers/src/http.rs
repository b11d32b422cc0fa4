//! The one HTTP client of this crate: HTTP/1.1, TLS with the workspace's crypto, the system's authorities.

use std::sync::Arc;

use http_body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::Error;

pub(crate) type Http<B> = Client<HttpsConnector<HttpConnector>, B>;

/// A client that trusts the system's authorities, and those of a PEM text besides.
pub(crate) fn client<B>(authorities: Option<&str>) -> Result<Http<B>, Error>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut roots = RootCertStore::empty();
    // Single unusable ones are no reason to stop; without any, every connection says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(authorities.unwrap_or_default().as_bytes()) {
        let added = certificate.ok().and_then(|certificate| roots.add(certificate).ok());
        added.ok_or_else(|| {
            Error::invalid("the authorities to trust can't be read", "write certificates as PEM")
        })?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::unavailable("TLS", error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // In clear text only where an endpoint is configured so, as tests do.
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}
