//! How an endpoint is reached: by a connection that is there, or by a new one. The one place that says which version of
//! HTTP is spoken on it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use causeway_ir::HttpVersion;
use tokio::time::timeout;

use super::buffer::send;
use super::h1::Version;
use super::h2::{Share, Trunk};
use crate::clock;
use crate::cluster::{Cluster, Endpoint, State};
use crate::tcp::{Carries, Upstream, is_local};
use crate::worker::Worker;

/// What a request is sent over.
pub(crate) enum Server {
    H1(Upstream),
    H2(Share),
}

/// What is sent over, where none was at hand.
pub(crate) struct Connected {
    pub(crate) server: Server,
    pub(crate) how: How,
}

/// How there came to be a connection.
pub(crate) enum How {
    /// It was opened for this request.
    Opened,
    /// It was opened for another one a moment ago, and nothing was heard on it yet.
    Joined,
    /// An answer came on it before.
    Proven,
}

/// Where a connection leads to.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) state: &'a State,
    pub(crate) endpoint: &'a Arc<Endpoint>,
    /// What goes over it, and whom the endpoint must prove to be, if the request says so.
    pub(crate) carries: Carries<'a>,
}

/// What is spoken to an endpoint of a cluster for a request that came in this version. One that asks for another protocol does so
/// in HTTP/1.1.
pub(crate) fn spoken(cluster: HttpVersion, came: Version, upgrades: bool) -> HttpVersion {
    match (cluster, came) {
        (HttpVersion::Same, Version::Http2) if !upgrades => HttpVersion::Http2,
        (HttpVersion::Same, _) => HttpVersion::Http1,
        (version, _) => version,
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    #[error(transparent)]
    Failed(io::Error),
    #[error("it took too long")]
    TimedOut,
    #[error("another request just failed to connect")]
    Elsewhere,
}

impl Unreached {
    /// The status that answers a request.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Failed(_) | Self::Elsewhere => 502,
            Self::TimedOut => 504,
        }
    }

    /// Whether the endpoint is to blame; nothing if that has been settled already.
    pub(crate) fn blames_endpoint(&self) -> Option<bool> {
        match self {
            Self::Failed(error) => Some(!is_local(error)),
            Self::TimedOut => Some(true),
            Self::Elsewhere => None,
        }
    }
}

/// A connection that is there. `limit`: the milliseconds that it may have said nothing for, if the request can't be sent
/// twice.
pub(crate) async fn pooled(worker: &Worker, to: To<'_>, limit: Option<u64>) -> Option<Server> {
    let Carries::Requests { server_name, version } = to.carries else { return None };
    let endpoint = to.endpoint;
    if version != HttpVersion::Http1 {
        while let Some(share) = worker.pool.join(endpoint, server_name) {
            let alive = match limit {
                Some(limit) => share.is_alive(limit).await,
                None => true,
            };
            if alive {
                return Some(Server::H2(share));
            }
        }
    }
    if version == HttpVersion::Http2 {
        return None;
    }
    worker.pool.take(endpoint, server_name, limit.unwrap_or(u64::MAX)).map(Server::H1)
}

/// A new connection, or one that somebody else opens at this moment and that has room. `first` goes before everything, on a
/// connection that nobody else uses.
///
/// # Errors
/// If there is none.
pub(crate) async fn connect(
    worker: &Rc<Worker>,
    to: To<'_>,
    first: Option<&[u8]>,
) -> Result<Connected, Unreached> {
    let To { cluster, state, endpoint, carries } = to;
    let (server_name, version) = match carries {
        Carries::Requests { server_name, version } => (server_name, version),
        Carries::Bytes { server_name, .. } => (server_name, HttpVersion::Http1),
    };
    let settings = &state.settings;
    // Who is not sure to speak HTTP/2 is not waited for: each HTTP/1.1 connection has one request.
    let opener = if version == HttpVersion::Http2 && first.is_none() {
        loop {
            match worker.pool.opener(endpoint) {
                Ok(opener) => break Some(opener),
                Err(opening) => {
                    let has_failed = opening.has_failed().await;
                    clock::wake();
                    if let Some(share) = worker.pool.join(endpoint, server_name) {
                        let how = if share.is_proven() { How::Proven } else { How::Joined };
                        return Ok(Connected { server: Server::H2(share), how });
                    }
                    if has_failed {
                        return Err(Unreached::Elsewhere);
                    }
                }
            }
        }
    } else {
        None
    };
    let connecting = async {
        let upstream = Upstream::reach(cluster, state, endpoint, carries).await?;
        upstream.socket().send_without_delay();
        if let Some(first) = first {
            send(&upstream, first, &[]).await?;
        }
        if !speaks_h2(version, &upstream) {
            return Ok(Begun::H1(upstream));
        }
        upstream.socket().keep_alive(&settings.keepalive);
        let secure = upstream.is_secure();
        Ok(Begun::H2(Trunk::open(upstream, secure, worker).await?))
    };
    let connected = timeout(settings.connect_timeout, connecting).await;
    clock::wake();
    let unreached = match connected {
        Ok(Ok(Begun::H1(upstream))) => {
            return Ok(Connected { server: Server::H1(upstream), how: How::Opened });
        }
        Ok(Ok(Begun::H2(trunk))) => match trunk.share() {
            Some(share) => {
                match opener {
                    Some(opener) => opener.succeed(trunk),
                    None if first.is_none() => worker.pool.add(endpoint, trunk),
                    None => {}
                }
                return Ok(Connected { server: Server::H2(share), how: How::Opened });
            }
            None => Unreached::Failed(io::ErrorKind::ConnectionReset.into()),
        },
        Ok(Err(error)) => Unreached::Failed(error),
        Err(_) => Unreached::TimedOut,
    };
    if let Some(opener) = opener {
        opener.fail();
    }
    Err(unreached)
}

/// A connection on which nothing was asked yet.
enum Begun {
    H1(Upstream),
    H2(Rc<Trunk>),
}

/// Whether HTTP/2 is spoken on a connection to an endpoint.
fn speaks_h2(version: HttpVersion, upstream: &Upstream) -> bool {
    match version {
        // It is never the same as nothing: what a request came in was asked for before.
        HttpVersion::Http1 | HttpVersion::Same => false,
        HttpVersion::Http2 => true,
        HttpVersion::Auto => upstream.agreed_on_h2(),
    }
}
