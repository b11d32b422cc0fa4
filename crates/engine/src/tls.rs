//! TLS that ends here: the certificates that a plan names, which of them a client gets, and the connection itself.

mod certificates;
mod resolver;
mod stream;

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ProducesTickets};

pub use certificates::{Certificate, Certificates, Error};
pub(crate) use stream::TlsStream;

use resolver::Resolver;

/// What all ends of TLS of an engine share.
pub(crate) struct Shared {
    provider: Arc<rustls::crypto::CryptoProvider>,
    /// One for all, so that a client may come back to any core and after a change of its route. Rotates by itself.
    tickets: Option<Arc<dyn ProducesTickets>>,
}

impl Default for Shared {
    fn default() -> Self {
        let tickets = rustls::crypto::aws_lc_rs::Ticketer::new();
        if let Err(error) = &tickets {
            tracing::warn!(%error, "no TLS session is resumed");
        }
        Self { provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()), tickets: tickets.ok() }
    }
}

impl Shared {
    /// The end of TLS with these certificates, the first of which is for names that none of them has. Without any, no
    /// handshake succeeds.
    pub(crate) fn terminate(
        &self,
        certificates: &[Arc<Certificate>],
        protocols: &[&[u8]],
    ) -> Option<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .ok()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Resolver::new(certificates)));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if let Some(tickets) = &self.tickets {
            config.ticketer = Arc::clone(tickets);
        }
        Some(Arc::new(config))
    }
}
