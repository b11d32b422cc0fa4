//! Routes of all five kinds, and what their rules are made of.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::meta::items;
use super::{Object, Spec};
pub use crate::references::{BackendRef, ParentRef};

/// A kind of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKind {
    /// Requests.
    Http,
    /// Calls.
    Grpc,
    /// Connections by server name.
    Tls,
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl RouteKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Http, Self::Grpc, Self::Tls, Self::Tcp, Self::Udp];

    /// As Gateway API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
            Self::Udp => "UDPRoute",
        }
    }
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An HTTPRoute.
pub type HttpRoute = Object<HttpRouteSpec>;
/// A GRPCRoute.
pub type GrpcRoute = Object<GrpcRouteSpec>;
/// A TLSRoute, TCPRoute or UDPRoute.
pub type ConnectionRoute = Object<ConnectionRouteSpec>;

/// What a TLSRoute, TCPRoute or UDPRoute asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The server names of a TLSRoute.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Where connections go.
    #[serde(default)]
    pub rules: Vec<ConnectionRule>,
}

impl Spec for ConnectionRouteSpec {
    fn outline(spec: &Value) -> Self {
        Self { parent_refs: items(spec, "parentRefs"), ..Self::default() }
    }
}

/// A rule of a TLSRoute, TCPRoute or UDPRoute.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionRule {
    /// Its name, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// Where connections go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}

/// What an HTTPRoute asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Its hosts; all of a listener's if empty.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// What is done; one rule for everything if the list is left out.
    #[serde(default)]
    pub rules: Vec<HttpRule>,
}

impl Spec for HttpRouteSpec {
    fn outline(spec: &Value) -> Self {
        Self { parent_refs: items(spec, "parentRefs"), ..Self::default() }
    }
}

/// A rule of an HTTPRoute.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRule {
    /// Its name, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// One of these; everything if empty.
    #[serde(default)]
    pub matches: Vec<HttpMatch>,
    /// What is changed on the way.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// Where requests go.
    #[serde(default)]
    pub backend_refs: Vec<Backend>,
    /// How long they may take.
    #[serde(default)]
    pub timeouts: Option<Timeouts>,
    /// When they are sent again.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// How a client stays with its endpoint.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// A backend with what is changed for it alone.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Which one.
    #[serde(flatten)]
    pub reference: BackendRef,
    /// What is changed.
    #[serde(default)]
    pub filters: Vec<Filter>,
}

/// What a request looks like.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// Its path; every path if left out.
    #[serde(default)]
    pub path: Option<PathMatch>,
    /// Its headers.
    #[serde(default)]
    pub headers: Vec<HeaderMatch>,
    /// The parameters of its query.
    #[serde(default)]
    pub query_params: Vec<HeaderMatch>,
    /// Its method.
    #[serde(default)]
    pub method: Option<String>,
}

/// Which paths.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// `Exact`, `PathPrefix`, which is the default, or `RegularExpression`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// `/` if left out.
    #[serde(default)]
    pub value: Option<String>,
}

/// A header, or a parameter of a query, and its value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// `Exact`, which is the default, or `RegularExpression`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Which one.
    #[serde(default)]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// What is changed on a request's way; the field that belongs to the type is filled.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// What it does.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// With `RequestHeaderModifier`.
    #[serde(default)]
    pub request_header_modifier: Option<HeaderFilter>,
    /// With `ResponseHeaderModifier`.
    #[serde(default)]
    pub response_header_modifier: Option<HeaderFilter>,
    /// With `RequestMirror`.
    #[serde(default)]
    pub request_mirror: Option<Mirror>,
    /// With `RequestRedirect`.
    #[serde(default)]
    pub request_redirect: Option<Redirect>,
    /// With `URLRewrite`.
    #[serde(default)]
    pub url_rewrite: Option<UrlRewrite>,
    /// With `CORS`.
    #[serde(default)]
    pub cors: Option<Cors>,
}

/// Changes of headers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct HeaderFilter {
    /// Replaces every value.
    #[serde(default)]
    pub set: Vec<Header>,
    /// Adds a value.
    #[serde(default)]
    pub add: Vec<Header>,
    /// Removes every value.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// A header with its value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Header {
    /// Which one.
    #[serde(default)]
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// Where copies of requests go.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// The backend.
    #[serde(default)]
    pub backend_ref: BackendRef,
    /// Of a hundred.
    #[serde(default)]
    pub percent: Option<i64>,
    /// Of another number.
    #[serde(default)]
    pub fraction: Option<Fraction>,
}

/// A part of a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Fraction {
    /// So many.
    #[serde(default)]
    pub numerator: i64,
    /// Of so many; of a hundred if left out.
    #[serde(default)]
    pub denominator: Option<i64>,
}

/// Where a client is sent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// `http` or `https`.
    #[serde(default)]
    pub scheme: Option<String>,
    /// Another host.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Another path.
    #[serde(default)]
    pub path: Option<PathModifier>,
    /// Another port.
    #[serde(default)]
    pub port: Option<u16>,
    /// 302 if left out.
    #[serde(default)]
    pub status_code: Option<i64>,
}

/// Another path.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// With the first.
    #[serde(default)]
    pub replace_full_path: Option<String>,
    /// With the second.
    #[serde(default)]
    pub replace_prefix_match: Option<String>,
}

/// What a backend sees instead.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlRewrite {
    /// Another host.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Another path.
    #[serde(default)]
    pub path: Option<PathModifier>,
}

/// Who may use answers in a browser.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins, with wildcards.
    #[serde(default)]
    pub allow_origins: Vec<String>,
    /// Whether cookies are sent.
    #[serde(default)]
    pub allow_credentials: Option<bool>,
    /// Methods, or `*`.
    #[serde(default)]
    pub allow_methods: Vec<String>,
    /// Headers of requests, or `*`.
    #[serde(default)]
    pub allow_headers: Vec<String>,
    /// Headers of answers, or `*`.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// Seconds that an answer may be remembered; 5 if left out.
    #[serde(default)]
    pub max_age: Option<i64>,
}

/// How long requests may take, as Gateway API writes durations; `0s` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// A request as a whole.
    #[serde(default)]
    pub request: Option<String>,
    /// Each attempt.
    #[serde(default)]
    pub backend_request: Option<String>,
}

/// When requests are sent again.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Statuses that count as failures.
    #[serde(default)]
    pub codes: Vec<i64>,
    /// Attempts after the first; 1 if left out, 0 is none.
    #[serde(default)]
    pub attempts: Option<i64>,
    /// Time before each.
    #[serde(default)]
    pub backoff: Option<String>,
}

/// How a client stays with its endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// The name of the cookie or header.
    #[serde(default)]
    pub session_name: Option<String>,
    /// `Cookie`, which is the default, or `Header`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Time from the first request.
    #[serde(default)]
    pub absolute_timeout: Option<String>,
    /// Time without a request.
    #[serde(default)]
    pub idle_timeout: Option<String>,
    /// With `Cookie`.
    #[serde(default)]
    pub cookie_config: Option<CookieConfig>,
}

/// What is said of a cookie.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieConfig {
    /// `Session`, which is the default, or `Permanent`.
    #[serde(default)]
    pub lifetime_type: Option<String>,
}

/// What a GRPCRoute asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Its hosts; all of a listener's if empty.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// What is done.
    #[serde(default)]
    pub rules: Vec<GrpcRule>,
}

impl Spec for GrpcRouteSpec {
    fn outline(spec: &Value) -> Self {
        Self { parent_refs: items(spec, "parentRefs"), ..Self::default() }
    }
}

/// A rule of a GRPCRoute.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRule {
    /// Its name, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// One of these; every call if empty.
    #[serde(default)]
    pub matches: Vec<GrpcMatch>,
    /// What is changed on the way.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// Where calls go.
    #[serde(default)]
    pub backend_refs: Vec<Backend>,
    /// How a client stays with its endpoint.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

/// What a call looks like.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMatch {
    /// Service and method.
    #[serde(default)]
    pub method: Option<GrpcMethod>,
    /// Its headers.
    #[serde(default)]
    pub headers: Vec<HeaderMatch>,
}

/// A service and a method, or one of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMethod {
    /// `Exact`, which is the default, or `RegularExpression`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The service; every one if left out.
    #[serde(default)]
    pub service: Option<String>,
    /// The method; every one if left out.
    #[serde(default)]
    pub method: Option<String>,
}
