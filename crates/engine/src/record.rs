//! What is known of a connection or session when it ends, counted once and written to the access log.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::access_log::Line;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint};
use crate::listener::Listener;
use crate::table::Route;
use crate::worker::Shared;

pub(crate) struct Record {
    pub(crate) client: SocketAddr,
    pub(crate) started: u64,
    pub(crate) handshake: u64,
    pub(crate) connect: u64,
    pub(crate) attempts: u32,
    pub(crate) server_name: Option<Arc<str>>,
    pub(crate) route: Option<Arc<Route>>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    pub(crate) bytes: (u64, u64),
}

impl Record {
    pub(crate) fn new(client: SocketAddr) -> Self {
        Self {
            client,
            started: clock::woken(),
            handshake: 0,
            connect: 0,
            attempts: 0,
            server_name: None,
            route: None,
            cluster: None,
            endpoint: None,
            bytes: (0, 0),
        }
    }

    /// Counts the end and writes its line.
    pub(crate) fn close(&self, reason: CloseReason, listener: &Listener, shared: &Shared) {
        match &self.route {
            Some(route) => route.shared.closed.count(reason),
            None => listener.metrics.closed.count(reason),
        }
        if !shared.access_log.is_on() {
            return;
        }
        let written = shared.access_log.write(&Line {
            time: jiff::Timestamp::now().to_string(),
            listener: &listener.name,
            client: self.client,
            server_name: self.server_name.as_deref(),
            route: self.route.as_ref().map(|route| &*route.name),
            cluster: self.cluster.as_ref().map(|cluster| cluster.name.as_str()),
            endpoint: self.endpoint.as_ref().map(|endpoint| &endpoint.address),
            attempts: self.attempts,
            bytes_up: self.bytes.0,
            bytes_down: self.bytes.1,
            handshake_millis: self.handshake,
            connect_millis: self.connect,
            duration_millis: clock::woken().saturating_sub(self.started),
            reason,
        });
        if !written {
            shared.metrics.log_lines_lost.inc();
        }
    }
}
