//! What is known of a request when it is over, counted once and written to the access log.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;

use super::decision::Seen;
use super::route::Route;
use crate::clock;
use crate::cluster::{Cluster, Endpoint};
use crate::listener::Listener;
use crate::spans::{Span, Trace};
use crate::worker::Shared;

pub(crate) struct RequestRecord {
    client: SocketAddr,
    started: u64,
    pub(crate) listener: Option<Arc<Listener>>,
    pub(crate) seen: Option<Seen>,
    pub(crate) route: Option<Arc<Route>>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    pub(crate) attempts: u32,
    pub(crate) status: u16,
    /// When the answer began; 0 if it did not.
    pub(crate) first_byte: u64,
    pub(crate) bytes: (u64, u64),
}

/// What is said of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: String,
    listener: &'a str,
    client: SocketAddr,
    /// The client behind trusted proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    forwarded_for: Option<IpAddr>,
    method: &'a str,
    host: &'a str,
    path: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<&'a causeway_ir::Address>,
    attempts: u32,
    bytes_up: u64,
    bytes_down: u64,
    /// Until the endpoint answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_millis: Option<u64>,
    duration_millis: u64,
}

impl RequestRecord {
    pub(crate) fn new(client: SocketAddr) -> Self {
        Self {
            client,
            started: clock::woken(),
            listener: None,
            seen: None,
            route: None,
            cluster: None,
            endpoint: None,
            attempts: 0,
            status: 0,
            first_byte: 0,
            bytes: (0, 0),
        }
    }

    /// Counts the end and writes its line.
    pub(crate) fn close(&self, shared: &Shared) {
        let Some(listener) = &self.listener else { return };
        let millis = clock::woken().saturating_sub(self.started);
        match &self.route {
            Some(route) => route.base.shared.closed.count_request(self.status, millis),
            None => listener.metrics.closed.count_request(self.status, millis),
        }
        if let Some(cluster) = &self.cluster {
            cluster.metrics.count_request(self.status, millis);
        }
        // What was no request has no line, and no span.
        let Some(seen) = &self.seen else { return };
        if let (Some(trace), Some(spans)) = (seen.trace, &shared.spans) {
            spans.pass(self.span(seen, trace, listener, millis));
        }
        if !shared.access_log.is_on() {
            return;
        }
        let written = shared.access_log.write(&Line {
            time: jiff::Timestamp::now().to_string(),
            listener: &listener.name,
            client: self.client,
            forwarded_for: seen.forwarded_for,
            method: &seen.method,
            host: &seen.host,
            path: &seen.path,
            status: self.status,
            route: self.route.as_ref().map(|route| &*route.base.name),
            cluster: self.cluster.as_ref().map(|cluster| cluster.name.as_str()),
            endpoint: self.endpoint.as_ref().map(|endpoint| &endpoint.address),
            attempts: self.attempts,
            bytes_up: self.bytes.0,
            bytes_down: self.bytes.1,
            first_byte_millis: (self.first_byte > 0).then(|| self.first_byte.saturating_sub(self.started)),
            duration_millis: millis,
        });
        if !written {
            shared.metrics.log_lines_lost.inc();
        }
    }

    fn span(&self, seen: &Seen, trace: Trace, listener: &Listener, millis: u64) -> Span {
        let ended = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or_default();
        Span {
            trace,
            times: (ended.saturating_sub(millis * 1_000_000), ended),
            method: seen.method.clone(),
            scheme: seen.scheme,
            host: seen.host.clone(),
            path: seen.path.clone(),
            status: self.status,
            client: seen.forwarded_for.unwrap_or_else(|| self.client.ip()).to_canonical(),
            listener: Arc::clone(&listener.name),
            route: self.route.as_ref().map(|route| Arc::clone(&route.base.name)),
            cluster: self.cluster.as_ref().map(|cluster| cluster.name.clone()),
            endpoint: self.endpoint.as_ref().map(|endpoint| endpoint.address.to_string()),
            attempts: self.attempts,
        }
    }
}
