//! What requests look like.

use serde::{Deserialize, Serialize};

use super::text::{HeaderName, Method, Path, Regex};

/// A request that fits all of this.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestMatch {
    /// Default every path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Each of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderMatch>,
    /// Each of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<QueryMatch>,
    /// Default every method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
}

/// Which paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    /// This one.
    Exact(Path),
    /// This one and all below it: `/a` has `/a` and `/a/b`, not `/ab`.
    Prefix(Path),
    /// All that the expression matches as a whole.
    Regex(Regex),
    /// The calls of a method in every gRPC service: `/Say` has `/a.Greeter/Say`.
    Call(Path),
}

impl PathMatch {
    /// Whether a path without query fits.
    pub fn is_match(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => exact.as_str() == path,
            Self::Prefix(prefix) => {
                let prefix = prefix.as_str().trim_end_matches('/');
                path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Regex(regex) => regex.is_match(path),
            Self::Call(method) => call(path) == Some(method.as_str()),
        }
    }
}

/// The method that a path calls, with its slash; none if it has other than two segments.
pub fn call(path: &str) -> Option<&str> {
    let (service, method) = path.split_at(path.rfind('/')?);
    (service.rfind('/') == Some(0) && service.len() > 1).then_some(method)
}

/// A header and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderMatch {
    /// Which header.
    pub name: HeaderName,
    /// Which values.
    pub value: ValueMatch,
}

/// A parameter of the query and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryMatch {
    /// Which parameter; names are case-sensitive.
    pub name: String,
    /// Which values.
    pub value: ValueMatch,
}

/// Which values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueMatch {
    /// This one.
    Exact(String),
    /// All that the expression matches as a whole.
    Regex(Regex),
}

impl ValueMatch {
    /// Whether a value fits.
    pub fn is_match(&self, value: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == value,
            Self::Regex(regex) => regex.is_match(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_a_segment() {
        let prefix = |text: &str| PathMatch::Prefix(Path::parse(text).unwrap());
        for (pattern, path, fits) in [
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/", "/a", true),
            ("/a/", "/a/b", true),
            ("/", "/anything", true),
        ] {
            assert_eq!(prefix(pattern).is_match(path), fits, "{pattern} {path}");
        }
    }
}
