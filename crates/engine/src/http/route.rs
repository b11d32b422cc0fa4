//! A route of requests, compiled.

use std::sync::Arc;
use std::time::Duration;

use causeway_ir::http::{Filter, HttpAction, HttpRoute, PathRewrite, Redirect};
use causeway_ir::{Action, Period, Refusal};

use super::answer::Fixed;
use super::cors::Cors;
use super::edits::Edits;
use super::mirror::Mirror;
use crate::table;

/// A route of requests.
pub(crate) struct Route {
    /// Its name, its counts and, if it forwards, its clusters.
    pub(crate) base: Arc<table::Route>,
    pub(crate) does: Does,
    pub(crate) request: Edits,
    pub(crate) response: Edits,
    pub(crate) cors: Option<Cors>,
    pub(crate) mirrors: Box<[Mirror]>,
    /// The host that the endpoint sees instead.
    pub(crate) host: Option<Box<str>>,
    /// The path that the endpoint sees instead.
    pub(crate) path: Option<PathRewrite>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
}

pub(crate) enum Does {
    Forward,
    Redirect(Redirect),
    Respond(Fixed),
}

/// When a request is sent again.
pub(crate) struct Retry {
    pub(crate) attempts: u32,
    pub(crate) statuses: Box<[u16]>,
    pub(crate) backoff: Duration,
}

impl Route {
    /// Compiles; `make` makes the part that outlives changes.
    pub(crate) fn compile(
        planned: &HttpRoute,
        mut make: impl FnMut(&Action) -> Option<Arc<table::Route>>,
    ) -> Option<Self> {
        const BACKOFF: Duration = Duration::from_millis(25);
        let (action, does) = match &planned.action {
            HttpAction::Forward(targets) => (Action::Forward(targets.clone()), Does::Forward),
            // No connection comes of these: what is answered here has no endpoint.
            HttpAction::Redirect(redirect) => {
                (Action::Refuse(Refusal::Close), Does::Redirect(redirect.clone()))
            }
            HttpAction::Respond(response) => {
                (Action::Refuse(Refusal::Close), Does::Respond(Fixed::compile(response)))
            }
        };
        let request = planned.filters.iter().filter_map(|filter| match filter {
            Filter::RequestHeaders(change) => Some(change),
            _ => None,
        });
        let response = planned.filters.iter().filter_map(|filter| match filter {
            Filter::ResponseHeaders(change) => Some(change),
            _ => None,
        });
        let (mut host, mut path, mut cors) = (None, None, None);
        let mut mirrors = Vec::new();
        for filter in &planned.filters {
            match filter {
                Filter::Rewrite(rewrite) => {
                    host = rewrite.host.as_ref().map(|host| host.as_str().into()).or(host);
                    path = rewrite.path.clone().or(path);
                }
                Filter::Cors(planned) => cors = Some(Cors::compile(planned)),
                Filter::Mirror(planned) => {
                    let to = make(&Action::forward(planned.cluster.clone()))?;
                    let cluster = Arc::clone(to.cluster().ok()?);
                    mirrors.push(Mirror { cluster, per_hundred_thousand: planned.per_hundred_thousand });
                }
                _ => {}
            }
        }
        Some(Self {
            base: make(&action)?,
            does,
            request: Edits::compile(request),
            response: Edits::compile(response),
            cors,
            mirrors: mirrors.into(),
            host,
            path,
            request_timeout: planned.timeouts.request.map(Period::get),
            attempt_timeout: planned.timeouts.attempt.map(Period::get),
            retry: planned.retry.as_ref().map(|retry| Retry {
                attempts: retry.attempts.get(),
                statuses: retry.statuses.clone().into(),
                backoff: retry.backoff.map_or(BACKOFF, Period::get),
            }),
        })
    }
}

impl Route {
    /// Forwards and changes nothing.
    pub(crate) fn forwarding(base: Arc<table::Route>) -> Self {
        Self {
            base,
            does: Does::Forward,
            request: Edits::default(),
            response: Edits::default(),
            cors: None,
            mirrors: Box::default(),
            host: None,
            path: None,
            request_timeout: None,
            attempt_timeout: None,
            retry: None,
        }
    }
}

/// Writes a path as a rewrite wants it; `prefix` is how much of it the route's prefix is.
pub(crate) fn write_path(out: &mut Vec<u8>, path: &str, prefix: usize, rewrite: Option<&PathRewrite>) {
    match rewrite {
        None => out.extend_from_slice(path.as_bytes()),
        Some(PathRewrite::Full(full)) => out.extend_from_slice(full.as_str().as_bytes()),
        Some(PathRewrite::Prefix(instead)) => {
            let instead = instead.as_str().trim_end_matches('/');
            let rest = path.get(prefix..).unwrap_or_default();
            out.extend_from_slice(instead.as_bytes());
            out.extend_from_slice(rest.as_bytes());
            if instead.is_empty() && rest.is_empty() {
                out.push(b'/');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Gateway API.
    #[test]
    fn prefixes_are_replaced_with_and_without_slashes() {
        for (path, prefix, instead, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "/", "/bar"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/foo", "", "/xyz", "/xyz/foo"),
        ] {
            let rewrite = PathRewrite::Prefix(causeway_ir::http::Path::parse(instead).unwrap());
            let mut out = Vec::new();
            write_path(&mut out, path, prefix.len(), Some(&rewrite));
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{path} {prefix} {instead}");
        }
    }
}
