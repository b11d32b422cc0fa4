//! What is asked of requests before they go on, and what clients hear instead of an answer.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::text::HeaderName;
use crate::diff::Keyed;
use crate::{Limit, Name, Period, Size, networks};

/// What is asked of the requests of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policies {
    /// Who may ask; others get 403. Behind `trustedProxies` the client that they name. Default everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "networks::some")]
    pub allowed_clients: Vec<IpNet>,
    /// How often each client may ask; more gets 429. Default as often as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// How long a body may be; a longer one gets 413, as soon as it is known to be. Default as long as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_limit: Option<Size>,
    /// What is said instead of the few words that answers made here have; default what the listener has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_pages: Vec<ErrorPage>,
    /// Whether CONNECT opens a stream of bytes to an endpoint of the route, whatever address the client names; default it
    /// gets 405.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connect: bool,
    /// Keeps a client with the endpoint that it had first; default not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
}

impl Policies {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How often a client may ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// So many requests...
    pub requests: Limit,
    /// ...in this time; default 1s.
    #[serde(default = "second")]
    pub per: Period,
    /// So many may come at once; default as many as `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Limit>,
}

/// What is said with statuses that are answered here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorPage {
    /// 400 to 599.
    pub statuses: Vec<u16>,
    /// The name of the page in the plan.
    pub page: Name,
}

/// What is said, once for all who say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Page {
    /// Unique in the plan.
    pub name: Name,
    /// Default `text/html; charset=utf-8`.
    #[serde(default = "html", deserialize_with = "super::filter::visible")]
    pub content_type: String,
    /// The page itself.
    pub body: String,
}

impl Keyed for Page {
    fn key(&self) -> &str {
        &self.name
    }
}

/// The proxies before this one, whose word on their clients counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustedProxies {
    /// Where they are.
    #[serde(deserialize_with = "networks::some")]
    pub from: Vec<IpNet>,
    /// Where they say it; default `X-Forwarded-For` and `X-Forwarded-Proto`. The other one may be the client's own word.
    #[serde(default)]
    pub header: ForwardedHeader,
}

/// Where proxies say who their client is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ForwardedHeader {
    /// In `X-Forwarded-For` and `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// In `Forwarded`.
    Forwarded,
}

/// Keeps a client with the endpoint that it had first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Persistence {
    /// What the client brings back; default a cookie.
    #[serde(default)]
    pub by: PersistenceBy,
    /// The name of the cookie or header; default `causeway-session`.
    #[serde(default = "session")]
    pub name: HeaderName,
    /// How long a browser keeps the cookie; default until it is closed.
    #[serde(default)]
    pub lifetime: CookieLifetime,
    /// From the first request; default for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<Period>,
    /// Without a request; default for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Period>,
}

/// What a client brings back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PersistenceBy {
    /// A cookie.
    #[default]
    Cookie,
    /// A header.
    Header,
}

/// How long a browser keeps a cookie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CookieLifetime {
    /// Until it is closed.
    #[default]
    Session,
    /// As long as `absoluteTimeout` says.
    Permanent,
}

const fn second() -> Period {
    const { Period::from_secs(1) }
}

fn html() -> String {
    "text/html; charset=utf-8".to_owned()
}

fn session() -> HeaderName {
    HeaderName::known("causeway-session")
}
