//! What is changed on a request's way, and on its answer's way back.

use serde::{Deserialize, Serialize};

use super::text::{HeaderName, Method, Path, Regex};
use crate::{Name, Period};

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Filter {
    /// Headers of the request.
    RequestHeaders(HeaderChange),
    /// Headers of the answer.
    ResponseHeaders(HeaderChange),
    /// Host or path, before the request goes on.
    Rewrite(Rewrite),
    /// A copy of the request goes elsewhere, and its answer nowhere.
    Mirror(Mirror),
    /// Answers the questions of browsers on pages of other origins.
    Cors(Cors),
}

/// Changes of headers, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderChange {
    /// Replaces every value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderValue>,
    /// Adds a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderValue>,
    /// Removes every value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<HeaderName>,
}

/// A header with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderValue {
    /// Which header.
    pub name: HeaderName,
    /// Its value: visible characters and spaces.
    #[serde(deserialize_with = "visible")]
    pub value: String,
}

/// What the endpoint sees instead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rewrite {
    /// Another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// Another path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRewrite>,
}

/// Another path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathRewrite {
    /// In place of the whole path.
    Full(Path),
    /// In place of the prefix that the route matched.
    Prefix(Path),
    /// In place of a path that an expression matches.
    Regex(RegexRewrite),
}

/// What stands in place of a path that an expression matches as a whole; one that it does not match stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegexRewrite {
    /// With groups, as in `/users/([0-9]+)/(?<rest>.*)`.
    pub pattern: Regex,
    /// With what the groups matched, as in `/${rest}/of/$1`; it begins with `/`.
    pub with: String,
}

/// Where a copy of a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mirror {
    /// The name of a cluster of the plan.
    pub cluster: Name,
    /// How many of a hundred thousand requests; default all.
    #[serde(default = "all")]
    pub per_hundred_thousand: u32,
}

/// Who may use answers in a browser, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cors {
    /// `https://example.test`, `https://*.example.test`, or `*` for everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_origins: Vec<String>,
    /// Methods; default those that need no question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<Method>,
    /// Headers of requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<HeaderName>,
    /// Headers of answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<HeaderName>,
    /// Whether cookies and the like are sent; default not.
    #[serde(default)]
    pub allow_credentials: bool,
    /// How long a browser may remember the answer; default as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Period>,
}

const fn all() -> u32 {
    100_000
}

pub(super) fn visible<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f)) {
        return Ok(text);
    }
    Err(serde::de::Error::custom("the value of a header has no line ends or other control characters"))
}
