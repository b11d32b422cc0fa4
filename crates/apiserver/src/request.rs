//! What a request asks for, read from its method, path and query: the resource, the verb and the options.

use http::Method;

use crate::error::ApiError;

/// A path below `/api` or `/apis` that names a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub group: String,
    pub version: String,
    /// `None` for cluster-scoped requests and for lists across namespaces.
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Target {
    /// `None` if the path is not a resource path.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return None,
        };
        let mut target = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let rest = match rest {
            // `namespaces/x/status` and `namespaces/x/finalize` speak of the namespace itself.
            ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
                "namespaces".clone_into(&mut target.plural);
                target.name = Some((*name).to_owned());
                target.subresource = Some((*sub).to_owned());
                return Some(target);
            }
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                target.namespace = Some((*namespace).to_owned());
                rest
            }
            rest => rest,
        };
        let mut rest = rest.iter();
        (*rest.next()?).clone_into(&mut target.plural);
        target.name = rest.next().map(|s| (*s).to_owned());
        target.subresource = rest.next().map(|s| (*s).to_owned());
        rest.next().is_none().then_some(target)
    }
}

fn decode(part: &str) -> String {
    if !part.contains('%') {
        return part.to_owned();
    }
    // A plus sign stands for itself in a path, unlike in a query.
    let query = format!("{}=", part.replace('+', "%2B"));
    form_urlencoded::parse(query.as_bytes()).next().map(|(k, _)| k.into_owned()).unwrap_or_default()
}

/// The options of a query that any verb may carry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: u64,
    pub continue_token: String,
    pub resource_version: String,
    pub resource_version_match: String,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
    pub include_object: String,
    pub pretty: bool,
    pub propagation_policy: Option<String>,
    pub grace_period_seconds: Option<i64>,
    pub orphan_dependents: Option<bool>,
    /// Everything else, for subresources with options of their own.
    pub others: Vec<(String, String)>,
}

/// What happens to fields the schema does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Options {
    pub(crate) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut o = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "labelSelector" => o.label_selector = value,
                "fieldSelector" => o.field_selector = value,
                "limit" => o.limit = number(&key, &value)?,
                "continue" => o.continue_token = value,
                "resourceVersion" => o.resource_version = value,
                "resourceVersionMatch" => o.resource_version_match = value,
                "watch" => o.watch = boolean(&value),
                "allowWatchBookmarks" => o.allow_watch_bookmarks = boolean(&value),
                "sendInitialEvents" => o.send_initial_events = Some(boolean(&value)),
                "timeoutSeconds" => o.timeout_seconds = Some(number(&key, &value)?),
                "dryRun" if value == "All" => o.dry_run = true,
                "dryRun" if value.is_empty() => {}
                "dryRun" => {
                    return Err(ApiError::bad_request(format!(
                        "Invalid value for dryRun: {value:?}: write dryRun=All, the only one there is"
                    )));
                }
                "fieldManager" => o.field_manager = value,
                "fieldValidation" => {
                    o.field_validation = match value.as_str() {
                        "" | "Warn" => FieldValidation::Warn,
                        "Strict" => FieldValidation::Strict,
                        "Ignore" => FieldValidation::Ignore,
                        other => {
                            return Err(ApiError::bad_request(format!(
                                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Warn\", \"Strict\""
                            )));
                        }
                    }
                }
                "force" => o.force = Some(boolean(&value)),
                "includeObject" => o.include_object = value,
                "pretty" => o.pretty = boolean(&value),
                "propagationPolicy" => o.propagation_policy = Some(value),
                "gracePeriodSeconds" => o.grace_period_seconds = Some(number(&key, &value)?),
                "orphanDependents" => o.orphan_dependents = Some(boolean(&value)),
                _ => o.others.push((key.into_owned(), value)),
            }
        }
        if o.field_manager.len() > 128 {
            return Err(ApiError::bad_request("fieldManager: Too long: may not be more than 128 bytes"));
        }
        Ok(o)
    }

    /// The last value of an option that only one subresource knows.
    pub(crate) fn other(&self, key: &str) -> Option<&str> {
        self.others.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Whether such an option is given and not switched off.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.other(key).is_some_and(|v| v != "false" && v != "0")
    }

    /// Such an option as a number from 0.
    pub(crate) fn whole(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.other(key) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "{key}: Invalid value: {text:?}: write a whole number of at least 0"
                ))
            }),
        }
    }
}

fn boolean(value: &str) -> bool {
    !matches!(value, "false" | "0" | "False" | "FALSE" | "f" | "F")
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, ApiError> {
    value
        .parse()
        .map_err(|_| ApiError::bad_request(format!("{key}: Invalid value: {value:?}: write a whole number")))
}

/// The RBAC verb of a request.
pub(crate) fn verb(method: &Method, target: &Target, options: &Options) -> Option<&'static str> {
    Some(match *method {
        Method::GET | Method::HEAD if options.watch && target.subresource.is_none() => "watch",
        Method::GET | Method::HEAD if target.name.is_some() => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if target.name.is_some() => "delete",
        Method::DELETE => "deletecollection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_their_resource() {
        let short = |p: &str| {
            Target::parse(p).map(|t| {
                (
                    t.group,
                    t.version,
                    t.namespace.unwrap_or_default(),
                    t.plural,
                    t.name.unwrap_or_default(),
                    t.subresource.unwrap_or_default(),
                )
            })
        };
        let expect = |g: &str, v: &str, ns: &str, p: &str, n: &str, s: &str| {
            Some((g.into(), v.into(), ns.into(), p.into(), n.into(), s.into()))
        };
        assert_eq!(short("/api/v1/pods"), expect("", "v1", "", "pods", "", ""));
        assert_eq!(short("/api/v1/namespaces"), expect("", "v1", "", "namespaces", "", ""));
        assert_eq!(short("/api/v1/namespaces/a"), expect("", "v1", "", "namespaces", "a", ""));
        assert_eq!(short("/api/v1/namespaces/a/status"), expect("", "v1", "", "namespaces", "a", "status"));
        assert_eq!(short("/api/v1/namespaces/a/pods/b/log"), expect("", "v1", "a", "pods", "b", "log"));
        assert_eq!(
            short("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa+b"),
            expect("rbac.authorization.k8s.io", "v1", "", "clusterroles", "system:a+b", "")
        );
        assert_eq!(short("/api/v1"), None);
        assert_eq!(short("/apis/apps/v1"), None);
        assert_eq!(short("/api/v1/namespaces/a/pods/b/log/c"), None);
    }

    #[test]
    fn bad_options_are_refused() {
        for query in ["limit=ten", "dryRun=Some", "fieldValidation=Maybe"] {
            assert_eq!(Options::parse(query).unwrap_err().code, 400, "{query}");
        }
    }
}
