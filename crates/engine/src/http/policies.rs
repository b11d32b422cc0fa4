//! What is asked of the requests of a route before they go on.

use std::net::IpAddr;
use std::sync::Arc;

use causeway_ir::http::Policies as Planned;
use ipnet::IpNet;

use super::common::Common;
use super::h1::framing::Framing;
use super::pages::Pages;
use super::persistence::Persistence;
use super::rates::Rate;
use crate::clock;
use crate::table::RouteShared;

/// What is asked of the requests of a route, compiled.
#[derive(Default)]
pub(crate) struct Policies {
    allowed: Box<[IpNet]>,
    rate: Option<Rate>,
    pub(crate) body_limit: Option<u64>,
    pub(crate) pages: Option<Arc<Pages>>,
    /// CONNECT opens a stream of bytes to an endpoint.
    pub(crate) connect: bool,
    pub(crate) persistence: Option<Persistence>,
}

/// Why a request does not go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    /// Lines for the answer.
    pub(crate) lines: Vec<u8>,
}

impl Policies {
    pub(crate) fn compile(planned: &Planned, common: &Common<'_>) -> Self {
        Self {
            allowed: planned.allowed_clients.clone().into(),
            rate: planned.rate_limit.as_ref().map(Rate::compile),
            body_limit: planned.body_limit.map(causeway_ir::Size::bytes),
            pages: common.compiled(&planned.error_pages).or_else(|| common.pages.clone()),
            connect: planned.connect,
            persistence: planned
                .persistence
                .as_ref()
                .map(|planned| Persistence::compile(planned, common.sessions)),
        }
    }

    /// Whether nothing is asked.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { allowed, rate, body_limit, pages, connect, persistence } = self;
        allowed.is_empty()
            && rate.is_none()
            && body_limit.is_none()
            && pages.is_none()
            && !connect
            && persistence.is_none()
    }

    /// Why a request of this client, with a body of this kind, does not go on; nothing if it does. One that `is_known` only
    /// by the proxy that speaks for it is nobody that a list could name.
    pub(crate) fn refusal(
        &self,
        shared: &RouteShared,
        (client, is_known): (IpAddr, bool),
        framing: Framing,
    ) -> Option<Refused> {
        let refused = |status: u16| Some(Refused { status, lines: Vec::new() });
        let client = client.to_canonical();
        let is_allowed = || is_known && self.allowed.iter().any(|network| network.contains(&client));
        if !self.allowed.is_empty() && !is_allowed() {
            return refused(403);
        }
        if let Some(rate) = self.rate
            && let Err(seconds) = shared.rates().admit(client, clock::woken(), rate)
        {
            return Some(Refused { status: 429, lines: format!("retry-after: {seconds}\r\n").into_bytes() });
        }
        match (self.body_limit, framing) {
            (Some(limit), Framing::Length(length)) if length > limit => refused(413),
            _ => None,
        }
    }
}
