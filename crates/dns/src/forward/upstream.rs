//! A resolver: how it is reached, and how it is.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_base::report;
use causeway_ir::dns::Upstream as Planned;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::exchange;
use super::stream::{Route, Stream};
use crate::metrics::{Metrics, UpstreamMetrics};
use crate::status::UpstreamStatus;

/// Failures in a row after which others are asked first.
const FAILURES: u32 = 2;

/// Why a resolver can't be used.
#[derive(Debug, Error)]
pub enum Error {
    /// The authorities.
    #[error("can't read the authorities {path} of the resolver {address}: write the path of a PEM file")]
    ReadAuthorities {
        /// Of the resolver.
        address: SocketAddr,
        /// Of the file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// There are none in the file.
    #[error(
        "{path} has no certificate of an authority, so no resolver could be trusted: write the path of a PEM file with one"
    )]
    NoAuthorities {
        /// Of the file.
        path: String,
    },
    /// The name in the certificate.
    #[error(
        "`{name}` can't be the name in the certificate of the resolver {address}: write a DNS name, like dns.example.test"
    )]
    ServerName {
        /// Of the resolver.
        address: SocketAddr,
        /// As the plan has it.
        name: String,
    },
}

impl Error {
    /// The field of a plan's resolver that is wrong.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::ReadAuthorities { .. } | Self::NoAuthorities { .. } => "tlsCaFile",
            Self::ServerName { .. } => "tlsServerName",
        }
    }
}

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    name: Option<ServerName<'static>>,
    /// None without TLS.
    trust: Option<Mutex<Trust>>,
    stream: Mutex<Option<Stream>>,
    failures: AtomicU32,
    latency_micros: AtomicU64,
    loops: AtomicBool,
    pub(super) metrics: UpstreamMetrics,
}

impl Upstream {
    /// # Errors
    /// If its authorities or its name are of no use.
    pub(crate) fn new(planned: &Planned, metrics: &Metrics) -> Result<Self, Error> {
        let address = planned.address;
        let (name, trust) = match &planned.tls_server_name {
            None => (None, None),
            Some(name) => {
                let wrong = |_| Error::ServerName { address, name: name.to_string() };
                let name = ServerName::try_from(name.to_string()).map_err(wrong)?;
                let trust = Trust::read(address, planned.tls_ca_file.as_deref())?;
                (Some(name), Some(Mutex::new(trust)))
            }
        };
        Ok(Self {
            address,
            name,
            trust,
            stream: Mutex::default(),
            failures: AtomicU32::new(0),
            latency_micros: AtomicU64::new(0),
            loops: AtomicBool::new(false),
            metrics: metrics.upstream(&address.to_string()),
        })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.trust.is_some()
    }

    /// The connection that there is, or a new one.
    pub(super) fn stream(&self) -> Stream {
        let mut stream = lock(&self.stream);
        match &*stream {
            Some(open) if !open.is_closed() => open.clone(),
            _ => stream.insert(Stream::open(self.route())).clone(),
        }
    }

    /// How it is reached at this moment.
    fn route(&self) -> Route {
        let config = self.trust.as_ref().map(|trust| lock(trust).newest(self.address));
        Route { address: self.address, tls: config.zip(self.name.clone()) }
    }

    pub(super) fn answered(&self, after: Duration) {
        self.failures.store(0, Relaxed);
        self.metrics.latency.observe(after.as_secs_f64());
        let now = after.as_micros() as u64;
        let before = self.latency_micros.load(Relaxed);
        let average = if before == 0 { now } else { (before * 7 + now) / 8 };
        self.latency_micros.store(average.max(1), Relaxed);
    }

    pub(super) fn failed(&self, error: &exchange::Error) {
        self.metrics.failures.inc();
        if self.failures.fetch_add(1, Relaxed) + 1 == FAILURES {
            let error = report::chain(error);
            tracing::warn!(upstream = %self.address, error, "the resolver does not answer; others are asked first");
        }
    }

    /// It answered a probe.
    pub(super) fn is_back(&self) {
        if self.failures.swap(0, Relaxed) >= FAILURES {
            tracing::info!(upstream = %self.address, "the resolver answers again");
        }
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.failures.load(Relaxed) < FAILURES && !self.loops()
    }

    /// On average; 0 before the first answer, so that everybody is tried.
    pub(super) fn latency(&self) -> u64 {
        self.latency_micros.load(Relaxed)
    }

    pub(super) fn loops(&self) -> bool {
        self.loops.load(Relaxed)
    }

    pub(super) fn set_loops(&self, loops: bool) {
        let before = self.loops.swap(loops, Relaxed);
        if loops && !before {
            tracing::error!(
                upstream = %self.address,
                "what this resolver is asked comes back here, so it is not asked: name another in forward.upstreams"
            );
        }
    }

    pub(super) fn status(&self) -> UpstreamStatus {
        UpstreamStatus {
            address: self.address,
            tls: self.is_tls(),
            healthy: self.is_healthy(),
            loops: self.loops(),
        }
    }
}

/// Whose certificates count: those of a file, which is read again when it is another, or those of the host.
struct Trust {
    config: Arc<ClientConfig>,
    file: Option<(PathBuf, Stamp)>,
}

/// What tells a file from the one that was there before; none for one that is not there.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Trust {
    fn read(address: SocketAddr, ca_file: Option<&Path>) -> Result<Self, Error> {
        // Before the file is read, so that no change of it is missed.
        let file = ca_file.map(|path| (path.to_owned(), stamp(path)));
        Ok(Self { config: tls(address, ca_file)?, file })
    }

    /// For a new connection. A file that is of no use leaves the authorities of before.
    fn newest(&mut self, address: SocketAddr) -> Arc<ClientConfig> {
        if let Some((path, known)) = &mut self.file {
            let now = stamp(path);
            if now != *known {
                *known = now;
                match tls(address, Some(path)) {
                    Ok(config) => self.config = config,
                    Err(error) => {
                        tracing::warn!(error = report::chain(&error), "the authorities of before count on");
                    }
                }
            }
        }
        Arc::clone(&self.config)
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

fn tls(address: SocketAddr, ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca_file {
        let wrong = |source| Error::ReadAuthorities { address, path: path.display().to_string(), source };
        for certificate in CertificateDer::pem_file_iter(path).map_err(wrong)? {
            // One that is none of an authority signs nothing.
            let _ = roots.add(certificate.map_err(wrong)?);
        }
        if roots.is_empty() {
            return Err(Error::NoAuthorities { path: path.display().to_string() });
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}
