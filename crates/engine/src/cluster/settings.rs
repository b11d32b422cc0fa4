//! What a plan says of a cluster besides its name and endpoints. Most clusters of a plan say the same: they share it.

use std::sync::Arc;
use std::time::Duration;

use causeway_ir::{Ejection, HttpVersion, Keepalive, Limit, Policy, ProxyVersion, Transport};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) connect_timeout: Duration,
    /// In milliseconds.
    pub(crate) idle_limit: u64,
    pub(crate) retries: u32,
    pub(crate) ejection: Ejection,
    pub(crate) slow_start: Option<Duration>,
    pub(crate) connection_limit: Option<Limit>,
    pub(crate) send_proxy_protocol: Option<ProxyVersion>,
    pub(crate) keepalive: Keepalive,
    pub(crate) http_version: HttpVersion,
    /// The answer to requests while there is no endpoint.
    pub(crate) no_endpoint_status: u16,
    /// With TLS to each endpoint, and never without.
    pub(crate) is_secured: bool,
}

impl Settings {
    pub(crate) fn new(plan: &causeway_ir::Cluster) -> Self {
        let causeway_ir::Cluster {
            name: _,
            endpoints: _,
            // A plan with a link is refused before it comes here.
            transport,
            policy,
            connect_timeout,
            idle_timeout,
            retries,
            ejection,
            // The director keeps the check.
            health_check: _,
            slow_start,
            connection_limit,
            send_proxy_protocol,
            keepalive,
            http_version,
            no_endpoint_status,
        } = plan;
        Self {
            policy: *policy,
            connect_timeout: connect_timeout.get(),
            idle_limit: idle_timeout.get().as_millis() as u64,
            retries: *retries,
            ejection: ejection.clone(),
            slow_start: slow_start.map(causeway_ir::Period::get),
            connection_limit: *connection_limit,
            send_proxy_protocol: *send_proxy_protocol,
            keepalive: keepalive.clone(),
            http_version: *http_version,
            no_endpoint_status: *no_endpoint_status,
            is_secured: matches!(transport, Transport::Tls(_)),
        }
    }
}

/// The settings that were seen last, to be shared.
#[derive(Default)]
pub(crate) struct SettingsPool(Vec<Arc<Settings>>);

impl SettingsPool {
    /// Different ones that are remembered; a plan with more of them has copies.
    const SIZE: usize = 32;

    pub(crate) fn of(&mut self, plan: &causeway_ir::Cluster) -> Arc<Settings> {
        let settings = Settings::new(plan);
        if let Some(known) = self.0.iter().find(|known| ***known == settings) {
            return Arc::clone(known);
        }
        if self.0.len() == Self::SIZE {
            self.0.remove(0);
        }
        let settings = Arc::new(settings);
        self.0.push(Arc::clone(&settings));
        settings
    }
}
