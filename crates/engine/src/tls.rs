//! TLS on either side: the certificates and authorities that a plan names, which certificate a client gets, what is asked
//! of clients and endpoints, and the connection itself.

mod authorities;
mod certificates;
mod clients;
mod expiry;
mod resolver;
mod stream;
mod upstream;

use std::sync::{Arc, Mutex, Weak};

use causeway_base::lock::lock;
use causeway_ir::HttpVersion;
use causeway_ir::tls::{ClientCertificates, UpstreamTls};
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};

pub use authorities::{Authorities, Error as AuthoritiesError};
pub use certificates::{Certificate, Certificates, Error};
pub(crate) use clients::Clients;
pub(crate) use expiry::Expiry;
pub(crate) use stream::TlsStream;
pub(crate) use upstream::{Failed, Upstream};

use resolver::Resolver;

/// What all ends of TLS of an engine share.
pub(crate) struct Shared {
    provider: Arc<rustls::crypto::CryptoProvider>,
    /// One for all that ask nothing of clients, so that a client may come back to any core and after a change of its
    /// route. Rotates by itself.
    tickets: Option<Arc<dyn ProducesTickets>>,
    /// And one for all that ask the same of clients.
    asking: Mutex<Vec<Asking>>,
}

/// What is asked of clients, and their tickets while somebody uses them.
struct Asking {
    clients: Arc<Clients>,
    tickets: Weak<dyn ProducesTickets>,
}

impl Default for Shared {
    fn default() -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self { provider, tickets: tickets(), asking: Mutex::default() }
    }
}

fn tickets() -> Option<Arc<dyn ProducesTickets>> {
    let tickets = rustls::crypto::aws_lc_rs::Ticketer::new();
    if let Err(error) = &tickets {
        tracing::warn!(%error, "no TLS session is resumed");
    }
    tickets.ok()
}

impl Shared {
    /// The end of TLS with these certificates, the first of which is for names that none of them has. Without any, no
    /// handshake succeeds.
    pub(crate) fn terminate(
        &self,
        certificates: &[Arc<Certificate>],
        clients: Option<&Arc<Clients>>,
        protocols: &[&[u8]],
    ) -> Option<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .ok()?
            .with_client_cert_verifier(
                clients.map_or_else(WebPkiClientVerifier::no_client_auth, |clients| clients.verifier()),
            )
            .with_cert_resolver(Arc::new(Resolver::new(certificates)));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // A session that is resumed is asked for no certificate: one that began where nothing, or other authorities, were
        // asked for must not be.
        let tickets = match clients {
            Some(clients) => self.tickets_for(clients),
            None => self.tickets.clone(),
        };
        if let Some(tickets) = tickets {
            config.ticketer = tickets;
        }
        Some(Arc::new(config))
    }

    /// The tickets of all that ask the same of clients.
    fn tickets_for(&self, clients: &Arc<Clients>) -> Option<Arc<dyn ProducesTickets>> {
        let mut asking = lock(&self.asking);
        asking.retain(|asking| asking.tickets.strong_count() > 0);
        let known = asking.iter().find(|asking| asking.clients.is_same(clients));
        if let Some(tickets) = known.and_then(|asking| asking.tickets.upgrade()) {
            return Some(tickets);
        }
        let tickets = tickets()?;
        asking.push(Asking { clients: Arc::clone(clients), tickets: Arc::downgrade(&tickets) });
        Some(tickets)
    }

    /// What is asked of clients; nothing if the authorities are missing.
    pub(crate) fn clients(&self, planned: &ClientCertificates, given: &Certificates) -> Option<Arc<Clients>> {
        let authorities = given.authorities(&planned.authorities.0)?;
        Clients::new(authorities, planned.mode, &self.provider).map(Arc::new)
    }

    /// TLS to the endpoints of a cluster; nothing if something that it needs is missing.
    pub(crate) fn upstream(
        &self,
        planned: &UpstreamTls,
        version: HttpVersion,
        given: &Certificates,
    ) -> Option<Arc<Upstream>> {
        let roots = match &planned.authorities {
            Some(name) => Arc::clone(&given.authorities(&name.0)?.roots),
            None => authorities::of_system(),
        };
        let shown = match &planned.certificate {
            Some(name) => Some(&**given.get(&name.0)?),
            None => None,
        };
        Upstream::new(planned, version, roots, shown, &self.provider).map(Arc::new)
    }
}
