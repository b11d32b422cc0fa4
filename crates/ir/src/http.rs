//! Routes of requests: what is matched, what is changed on the way, and the action. The order in which routes are tried
//! is in [`precedence`].

mod filter;
mod matches;
mod policy;
pub mod precedence;
mod regexes;
mod targets;
mod text;

use serde::{Deserialize, Serialize};

pub use filter::{Cors, Filter, HeaderChange, HeaderValue, Mirror, PathRewrite, RegexRewrite, Rewrite};
pub use matches::{HeaderMatch, PathMatch, QueryMatch, RequestMatch, ValueMatch, call};
pub use policy::{
    CookieLifetime, ErrorPage, ForwardedHeader, Page, Persistence, PersistenceBy, Policies, RateLimit,
    TrustedProxies,
};
pub use regexes::Regexes;
pub use targets::{HttpTarget, HttpTargets};
pub use text::{HeaderName, Method, Path, Regex};

use crate::diff::Keyed;
use crate::{ConnectionRoute, Limit, Name, Pattern, Period};

/// The ways of requests. Of all hosts that sites and `misdirected` have, the one that fits a request best says where it is
/// looked for; one that no route there matches is answered with 404.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http {
    /// For hosts that no site has, in the order that decides where two match equally well.
    #[serde(default)]
    pub routes: Vec<HttpRoute>,
    /// Hosts that are served apart from all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<Site>,
    /// Hosts that are served on this port to who asked for them in TLS, and answered with 421 to who asked for another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misdirected: Vec<Pattern>,
    /// The proxies before this one, whose word on their clients counts; default nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_proxies: Option<TrustedProxies>,
    /// Stands unseen before a server: what requests say of their clients goes on as it came; default it is written anew, and
    /// only trusted proxies are believed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transparent: bool,
    /// What is said instead of the few words that answers made here have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_pages: Vec<ErrorPage>,
    /// The way, byte for byte, of connections in clear text that do not begin with a request, or with nothing for three
    /// seconds since their server speaks first; default they are answered with 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<ConnectionRoute>,
}

/// Hosts with routes of their own: no other route of the listener sees their requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Site {
    /// Unique in its listener.
    pub name: Name,
    /// The hosts that are its own; each stands in one site.
    pub hosts: Vec<Pattern>,
    /// In the order that decides where two match equally well. Their hosts rank as they are written, also where a site's
    /// host is narrower.
    #[serde(default)]
    pub routes: Vec<HttpRoute>,
}

impl Keyed for Site {
    fn key(&self) -> &str {
        &self.name
    }
}

/// Requests and what is done with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRoute {
    /// Unique in its listener.
    pub name: Name,
    /// The hosts that requests name; default every host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Pattern>,
    /// What requests look like, one of these; default anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<RequestMatch>,
    /// What is changed on the way, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    /// How long requests may take; default as long as they like.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// When a request is sent again; default only if it never reached an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What is asked of them; default nothing.
    #[serde(default, skip_serializing_if = "Policies::is_empty")]
    pub policies: Policies,
    /// What is done with them.
    pub action: HttpAction,
}

impl Keyed for HttpRoute {
    fn key(&self) -> &str {
        &self.name
    }
}

/// What is done with a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HttpAction {
    /// It goes to an endpoint of one of these clusters.
    Forward(HttpTargets),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// It is answered here.
    Respond(Response),
}

/// Where a client is sent; what is left out stays as in the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Redirect {
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// Another port; default the scheme's own where the scheme changes, else the listener's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Another path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRewrite>,
    /// Default 302.
    #[serde(default)]
    pub status: RedirectStatus,
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Clear text.
    Http,
    /// TLS.
    Https,
}

/// The status of a redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum RedirectStatus {
    /// 301.
    Moved,
    /// 302.
    #[default]
    Found,
    /// 303.
    SeeOther,
    /// 307.
    Temporary,
    /// 308.
    Permanent,
}

impl TryFrom<u16> for RedirectStatus {
    type Error = String;

    fn try_from(status: u16) -> Result<Self, String> {
        Ok(match status {
            301 => Self::Moved,
            302 => Self::Found,
            303 => Self::SeeOther,
            307 => Self::Temporary,
            308 => Self::Permanent,
            _ => {
                return Err(format!(
                    "{status} is not the status of a redirect: write 301, 302, 303, 307 or 308"
                ));
            }
        })
    }
}

impl From<RedirectStatus> for u16 {
    fn from(status: RedirectStatus) -> Self {
        match status {
            RedirectStatus::Moved => 301,
            RedirectStatus::Found => 302,
            RedirectStatus::SeeOther => 303,
            RedirectStatus::Temporary => 307,
            RedirectStatus::Permanent => 308,
        }
    }
}

/// An answer that is the same for every request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Response {
    /// 200 to 599.
    #[serde(deserialize_with = "status")]
    pub status: u16,
    /// Headers to send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderValue>,
    /// Default nothing.
    #[serde(default)]
    pub body: String,
}

/// How long a request may take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timeouts {
    /// From its first byte to the last of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Period>,
    /// For each attempt, from sending it to the last byte of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Period>,
}

/// When a request is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Attempts after the first.
    pub attempts: Limit,
    /// Answers of these statuses count as failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<u16>,
    /// Before each attempt, longer each time and with jitter; default 25ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Period>,
}

impl Http {
    /// Its lists of routes: those for all other hosts, then each site's with its place.
    pub fn lists(&self) -> impl Iterator<Item = (Option<usize>, &[HttpRoute])> {
        let sites = self.sites.iter().enumerate().map(|(s, site)| (Some(s), site.routes.as_slice()));
        std::iter::once((None, self.routes.as_slice())).chain(sites)
    }

    /// All routes, those of sites too.
    pub fn all_routes(&self) -> impl Iterator<Item = &HttpRoute> {
        self.lists().flat_map(|(_, routes)| routes)
    }

    /// The clusters that requests and copies of them go to; one that several name is there several times.
    pub fn clusters(&self) -> impl Iterator<Item = &Name> {
        self.all_routes().flat_map(HttpRoute::clusters)
    }

    /// Whether two differ in nothing but the routes that have a diff of their own.
    pub fn same_but_routes(&self, other: &Self) -> bool {
        let Self { routes: _, sites, misdirected, trusted_proxies, transparent, error_pages, otherwise } =
            self;
        let same_head = |a: &Site, b: &Site| {
            let Site { name, hosts, routes: _ } = a;
            *name == b.name && *hosts == b.hosts
        };
        *misdirected == other.misdirected
            && *trusted_proxies == other.trusted_proxies
            && *transparent == other.transparent
            && *error_pages == other.error_pages
            && *otherwise == other.otherwise
            && sites.len() == other.sites.len()
            && sites.iter().zip(&other.sites).all(|(a, b)| same_head(a, b))
    }
}

impl HttpRoute {
    /// The clusters that requests and copies of them go to.
    pub fn clusters(&self) -> impl Iterator<Item = &Name> {
        let forwarded = match &self.action {
            HttpAction::Forward(targets) => targets.as_slice(),
            HttpAction::Redirect(_) | HttpAction::Respond(_) => &[],
        };
        let mirrored = self.filters.iter().filter_map(|filter| match filter {
            Filter::Mirror(mirror) => Some(&mirror.cluster),
            _ => None,
        });
        forwarded.iter().map(|target| &target.cluster).chain(mirrored)
    }
}

/// Where a list of routes stands below `http`.
pub fn list_path(site: Option<usize>) -> String {
    match site {
        Some(site) => format!("sites[{site}].routes"),
        None => "routes".to_owned(),
    }
}

pub(crate) fn status<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let status = u16::deserialize(deserializer)?;
    if (200..600).contains(&status) {
        return Ok(status);
    }
    Err(serde::de::Error::custom(format!("{status} is not the status of an answer: write 200 to 599")))
}
