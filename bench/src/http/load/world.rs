//! What a load knows: where to connect, as whom, what to ask and what has to come back. Everything that is sent is made
//! before the load begins.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::answer::Expected;
use super::requests::CONNECTIONS;
use super::trust::{self, Trust};
use super::wire::Wire;
use crate::http::certificates;
use crate::http::frames::{Block, Name};
use crate::http::setting::{Ask, GATEWAY, LARGE, LARGE_BODY, MESSAGE, SMALL_BODY, Setting, Version};
use crate::http::workload::Workload;

const AGENT: &str = "causeway-bench";

/// A request and its answer.
pub(super) struct Asked {
    name: ServerName<'static>,
    backend: usize,
    /// As HTTP/1.1.
    pub(super) request: Vec<u8>,
    pub(super) expected: Expected,
}

pub(super) struct World {
    setting: Setting,
    /// Without a gateway.
    direct: bool,
    pub(super) asks: Vec<Asked>,
    /// The first request as HTTP/2.
    pub(super) head: Block,
    pub(super) body: &'static [u8],
    /// One for all connections, or one for each that keeps a session of its own; none without TLS.
    tls: Vec<Arc<ClientConfig>>,
    trust: Arc<Trust>,
}

impl World {
    pub(super) fn new(row: Workload, direct: bool, certificates: &Path) -> anyhow::Result<Self> {
        let setting = Setting::of(row);
        let asks = setting.asks();
        let messages = row == Workload::Grpc;
        let head = asks.first().map(|ask| head(ask, setting.has_tls(), messages));
        let head = head.context("there is nothing to ask for")?;
        let asks = asks.iter().map(|ask| asked(ask, &setting)).collect::<anyhow::Result<_>>()?;
        let own = |name: &String| {
            let own = if setting.changing {
                certificates::read_successors(certificates)?
            } else {
                vec![certificates::read(certificates, name)?]
            };
            anyhow::Ok((name.clone(), own))
        };
        let own = setting.certificates.iter().map(own).collect::<anyhow::Result<_>>()?;
        let trust = Arc::new(Trust::new(own));
        let mut tls = Vec::new();
        if setting.has_tls() {
            let protocol: &[u8] = match setting.front {
                Version::Http1 => b"http/1.1",
                Version::Http2 => b"h2",
            };
            let resumes = row == Workload::Resumed;
            for _ in 0..if resumes { CONNECTIONS } else { 1 } {
                tls.push(trust::config(Arc::clone(&trust), protocol, resumes)?);
            }
        }
        Ok(Self { setting, direct, asks, head, body: if messages { &MESSAGE } else { &[] }, tls, trust })
    }

    /// Bytes of each body.
    pub(super) fn length(&self) -> usize {
        length(&self.setting)
    }

    /// How many certificates of a name were shown.
    pub(super) fn shown(&self) -> u32 {
        self.trust.shown()
    }

    /// The place of the last of them.
    pub(super) fn last_shown(&self) -> u32 {
        self.trust.last_shown()
    }

    pub(super) fn front(&self) -> Version {
        self.setting.front
    }

    /// Begins to connect for a request; `slot` is who asks and `turn` chooses the address to connect from.
    pub(super) fn open(&self, place: usize, slot: usize, turn: usize) -> anyhow::Result<Wire> {
        let Asked { name, backend, .. } = &self.asks[place];
        let to = if self.direct { self.setting.backends[*backend] } else { GATEWAY };
        let tls = match self.tls.as_slice() {
            [] => None,
            all => Some((Arc::clone(&all[slot % all.len()]), name.clone())),
        };
        Wire::open(to, turn, tls)
    }
}

fn length(setting: &Setting) -> usize {
    match setting.back {
        Version::Http2 => MESSAGE.len(),
        Version::Http1 if setting.backends.contains(&LARGE) => LARGE_BODY,
        Version::Http1 => SMALL_BODY,
    }
}

fn asked(ask: &Ask, setting: &Setting) -> anyhow::Result<Asked> {
    let Ask { host, path, backend } = ask;
    let first = match setting.back {
        Version::Http1 => b'0' + *backend as u8,
        Version::Http2 => MESSAGE[0],
    };
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\nAccept: */*\r\n\r\n");
    Ok(Asked {
        name: ServerName::try_from(host.clone())?,
        backend: *backend,
        request: request.into_bytes(),
        expected: Expected { length: length(setting), first },
    })
}

/// A request as HTTP/2; numbers are places in its fixed table of fields.
fn head(ask: &Ask, secure: bool, messages: bool) -> Block {
    let scheme = if secure { 0x87 } else { 0x86 };
    let (authority, path) = ((Name::Known(1), ask.host.as_str()), (Name::Known(4), ask.path.as_str()));
    let agent = (Name::Known(58), AGENT);
    if messages {
        let (te, kind) = ((Name::Text("te"), "trailers"), (Name::Known(31), "application/grpc"));
        Block::new(&[0x83, scheme], &[authority, path, te, kind, agent], 0)
    } else {
        Block::new(&[0x82, scheme], &[authority, path, agent, (Name::Known(19), "*/*")], 0)
    }
}
