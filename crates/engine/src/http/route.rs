//! A route of requests, compiled.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use causeway_ir::http::{Filter, HttpAction, HttpRoute, PathRewrite, Redirect, RegexRewrite};
use causeway_ir::{Action, Period, Refusal, Targets};

use super::answer::Fixed;
use super::common::Common;
use super::cors::Cors;
use super::edits::Edits;
use super::fault::Fault;
use super::mirror::Mirror;
use super::path;
use super::policies::Policies;
use crate::cluster::Cluster;
use crate::table::{self, Rank};

/// A route of requests. What few routes have lies elsewhere: where there are many thousands, little is read of each.
pub(crate) struct Route {
    /// Its name, its counts and, if it forwards, its clusters.
    pub(crate) base: Arc<table::Route>,
    pub(crate) does: Does,
    /// Where requests go; none if they are answered here.
    pub(crate) targets: Box<[Target]>,
    pub(crate) cors: Option<Box<Cors>>,
    pub(crate) mirrors: Box<[Mirror]>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) retry: Option<Box<Retry>>,
    /// None if nothing is asked.
    policies: Option<Box<Policies>>,
}

/// One of the clusters that requests go to, and what is changed of those that go there.
pub(crate) struct Target {
    pub(crate) cluster: Arc<Cluster>,
    weight: u32,
    priority: u32,
    /// None if nothing is changed.
    changes: Option<Box<Changes>>,
    /// It changes requests in other ways than the route does.
    has_own_changes: bool,
}

/// What is changed of a request and its answer on the way: what the route says, and then what the target does.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) request: Edits,
    pub(crate) response: Edits,
    /// The host that the endpoint sees instead.
    pub(crate) host: Option<Box<str>>,
    /// The path that the endpoint sees instead.
    pub(crate) path: Option<PathRewrite>,
}

impl Target {
    /// What is changed of a request that goes there, and of its answer.
    pub(crate) fn changes(&self) -> &Changes {
        static NONE: LazyLock<Changes> = LazyLock::new(Changes::default);
        self.changes.as_deref().unwrap_or(&NONE)
    }
}

impl Changes {
    /// Whether requests go on as they came.
    pub(crate) fn leave_requests(&self) -> bool {
        self.request.is_empty() && self.host.is_none() && self.path.is_none()
    }

    /// Whether answers go back as they came.
    pub(crate) fn leave_answers(&self) -> bool {
        self.response.is_empty()
    }

    fn boxed(self) -> Option<Box<Self>> {
        let is_empty = self.leave_requests() && self.leave_answers();
        (!is_empty).then(|| Box::new(self))
    }

    fn compile<'a>(filters: impl Iterator<Item = &'a Filter> + Clone) -> Self {
        let request = filters.clone().filter_map(|filter| match filter {
            Filter::RequestHeaders(change) => Some(change),
            _ => None,
        });
        let response = filters.clone().filter_map(|filter| match filter {
            Filter::ResponseHeaders(change) => Some(change),
            _ => None,
        });
        let mut changes = Self {
            request: Edits::compile(request),
            response: Edits::compile(response),
            host: None,
            path: None,
        };
        for filter in filters {
            // The last word on host and path counts.
            if let Filter::Rewrite(rewrite) = filter {
                changes.host = rewrite.host.as_ref().map(|host| host.as_str().into()).or(changes.host);
                changes.path = rewrite.path.clone().or(changes.path);
            }
        }
        changes
    }
}

pub(crate) enum Does {
    Forward,
    Redirect(Box<Redirect>),
    Respond(Box<Fixed>),
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
        common: &Common<'_>,
        mut make: impl FnMut(&Action) -> Option<Arc<table::Route>>,
    ) -> Option<Self> {
        const BACKOFF: Duration = Duration::from_millis(25);
        let (action, does, planned_targets) = match &planned.action {
            HttpAction::Forward(targets) => {
                let shares = targets.as_slice().iter().map(|target| causeway_ir::Target {
                    cluster: target.cluster.clone(),
                    weight: target.weight,
                    priority: target.priority,
                });
                (Action::Forward(Targets::new(shares.collect())?), Does::Forward, targets.as_slice())
            }
            // No connection comes of these: what is answered here has no endpoint.
            HttpAction::Redirect(redirect) => {
                (Action::Refuse(Refusal::Close), Does::Redirect(Box::new(redirect.clone())), &[][..])
            }
            HttpAction::Respond(response) => {
                (Action::Refuse(Refusal::Close), Does::Respond(Box::new(Fixed::compile(response))), &[][..])
            }
        };
        let mut cors = None;
        let mut mirrors = Vec::new();
        for filter in &planned.filters {
            match filter {
                Filter::Cors(planned) => cors = Some(Box::new(Cors::compile(planned))),
                Filter::Mirror(planned) => {
                    let to = make(&Action::forward(planned.cluster.clone()))?;
                    let cluster = Arc::clone(to.cluster(0).ok()?);
                    mirrors.push(Mirror { cluster, per_hundred_thousand: planned.per_hundred_thousand });
                }
                Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) | Filter::Rewrite(_) => {}
            }
        }
        let base = make(&action)?;
        let targets =
            planned_targets.iter().zip(base.destination.clusters()).map(|(target, cluster)| Target {
                cluster: Arc::clone(cluster),
                weight: target.weight,
                priority: target.priority,
                changes: Changes::compile(planned.filters.iter().chain(&target.filters)).boxed(),
                has_own_changes: !target.filters.is_empty(),
            });
        let targets = targets.collect();
        Some(Self {
            base,
            does,
            targets,
            cors,
            mirrors: mirrors.into(),
            request_timeout: planned.timeouts.request.map(Period::get),
            attempt_timeout: planned.timeouts.attempt.map(Period::get),
            retry: planned.retry.as_ref().map(|retry| {
                Box::new(Retry {
                    attempts: retry.attempts.get(),
                    statuses: retry.statuses.clone().into(),
                    backoff: retry.backoff.map_or(BACKOFF, Period::get),
                })
            }),
            policies: Some(Policies::compile(&planned.policies, common))
                .filter(|policies| !policies.is_empty())
                .map(Box::new),
        })
    }
}

impl Route {
    /// Forwards to the clusters of `base` and changes nothing.
    pub(crate) fn forwarding(base: Arc<table::Route>) -> Self {
        let targets = base.destination.clusters().map(|cluster| Target {
            cluster: Arc::clone(cluster),
            weight: 1,
            priority: 0,
            changes: None,
            has_own_changes: false,
        });
        Self {
            targets: targets.collect(),
            base,
            does: Does::Forward,
            cors: None,
            mirrors: Box::default(),
            request_timeout: None,
            attempt_timeout: None,
            retry: None,
            policies: None,
        }
    }

    /// What is asked of its requests.
    pub(crate) fn policies(&self) -> &Policies {
        static NONE: LazyLock<Policies> = LazyLock::new(Policies::default);
        self.policies.as_deref().unwrap_or(&NONE)
    }

    /// The place of the target for the next request: by their shares, among those of the lowest priority that has an
    /// endpoint which can be used. If none has, those that come first say so.
    pub(crate) fn pick(&self, now: u64) -> Option<usize> {
        if self.targets.len() == 1 {
            return Some(0);
        }
        let ranks = self.targets.iter().map(|at| Rank::of(&at.cluster, at.weight, at.priority));
        self.base.shared.by_rank(ranks, now)
    }

    /// The place of the target that takes over when nothing of this one can be reached: of the next priority, and only
    /// where neither changes requests in a way of its own, since the head is written by then.
    pub(crate) fn after(&self, place: usize) -> Option<usize> {
        let from = self.targets.get(place).filter(|target| !target.has_own_changes)?;
        let later = self.targets.iter().enumerate().filter(|(_, target)| {
            target.weight > 0 && target.priority > from.priority && !target.has_own_changes
        });
        later.min_by_key(|(_, target)| target.priority).map(|(place, _)| place)
    }
}

/// What an expression makes of a path, if it matches; nothing if that is no path.
fn replaced(path: &str, rewrite: &RegexRewrite) -> Result<Option<String>, Fault> {
    let Some(replaced) = rewrite.pattern.replace(path, &rewrite.with) else { return Ok(None) };
    path::normalise(replaced.as_bytes()).map(|path| Some(path.into_owned()))
}

/// Whether a rewrite makes a path of this one.
pub(crate) fn can_rewrite(path: &str, rewrite: Option<&PathRewrite>) -> bool {
    match rewrite {
        Some(PathRewrite::Regex(rewrite)) => replaced(path, rewrite).is_ok(),
        Some(PathRewrite::Full(_) | PathRewrite::Prefix(_)) | None => true,
    }
}

/// Writes a path as a rewrite wants it; `prefix` is how much of it the route's prefix is.
pub(crate) fn write_path(out: &mut Vec<u8>, path: &str, prefix: usize, rewrite: Option<&PathRewrite>) {
    match rewrite {
        None => out.extend_from_slice(path.as_bytes()),
        // One that can't be rewritten was refused before, or stays.
        Some(PathRewrite::Regex(rewrite)) => match replaced(path, rewrite) {
            Ok(Some(instead)) => out.extend_from_slice(instead.as_bytes()),
            Ok(None) | Err(_) => out.extend_from_slice(path.as_bytes()),
        },
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

    #[test]
    fn groups_of_an_expression_make_a_path_or_none() {
        for (path, expected) in [
            ("/users/7/a", Some("/a/of/7")),
            ("/users/x/a", Some("/users/x/a")),
            ("/users/7/", Some("/of/7")),
            ("/users/7/.", None),
        ] {
            let rewrite: PathRewrite =
                serde_saphyr::from_str("regex: {pattern: '/users/([0-9]+)/(.*)', with: '/$2/of/$1'}")
                    .unwrap();
            let dots: PathRewrite =
                serde_saphyr::from_str("regex: {pattern: '(.*)', with: '/..$1'}").unwrap();
            if let Some(expected) = expected {
                let mut out = Vec::new();
                write_path(&mut out, path, 0, Some(&rewrite));
                assert_eq!(String::from_utf8(out).unwrap(), expected, "{path}");
            }
            assert!(can_rewrite(path, Some(&rewrite)), "{path}");
            assert!(!can_rewrite(path, Some(&dots)), "{path}");
        }
    }

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
