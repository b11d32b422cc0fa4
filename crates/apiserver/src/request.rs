//! What a request asks for, read from its method, path and query: the resource, the verb and the options.

use http::Method;

use serde_json::json;

use crate::builtin::path_segment;
use crate::error::{ApiError, FieldError, FieldErrorKind};

/// The one patch that may be forced.
const APPLY: &str = "application/apply-patch+yaml";

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

    /// Refuses names that can't be those of objects: one with a slash in it would lead to the files of another namespace
    /// where somebody keeps files by name.
    ///
    /// # Errors
    /// In Kubernetes' words.
    pub(crate) fn check_names(&self) -> Result<(), ApiError> {
        for (word, name) in [("Namespace", &self.namespace), ("Name", &self.name)] {
            let complaints = name.as_deref().map(path_segment).unwrap_or_default();
            if !complaints.is_empty() {
                let name = name.as_deref().unwrap_or_default();
                let message = format!("{word} parameter invalid: {name:?}: {}", complaints.join(";"));
                return Err(ApiError::bad_request(message));
            }
        }
        Ok(())
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
    /// What is wrong with the options of a write; a read does not look at them.
    invalid: Vec<FieldError>,
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
                // Below nothing means no limit.
                "limit" => o.limit = number::<i64>(&key, &value)?.max(0).unsigned_abs(),
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
                    o.invalid.push(FieldError::not_supported("dryRun", &json!([value]), &["All"]));
                }
                "fieldManager" => o.field_manager = value,
                "fieldValidation" => {
                    o.field_validation = match value.as_str() {
                        "" | "Warn" => FieldValidation::Warn,
                        "Strict" => FieldValidation::Strict,
                        "Ignore" => FieldValidation::Ignore,
                        other => {
                            let known = ["", "Ignore", "Strict", "Warn"];
                            let error = FieldError::not_supported("fieldValidation", &json!(other), &known);
                            o.invalid.push(error);
                            FieldValidation::Warn
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
            let detail = "may not be more than 128 bytes";
            o.invalid.push(FieldError::new(FieldErrorKind::TooLong, "fieldManager", detail));
        }
        Ok(o)
    }

    /// Whether these are options of such a request.
    pub(crate) fn check(&self, method: &Method, content_type: &str) -> Result<(), ApiError> {
        let kind = match *method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            Method::DELETE => "DeleteOptions",
            _ => return Ok(()),
        };
        let mut invalid = self.invalid.clone();
        if *method == Method::PATCH && self.force.is_some() && !content_type.starts_with(APPLY) {
            invalid.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        if invalid.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", &invalid)) }
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
        Method::GET | Method::HEAD if options.watch && target.name.is_none() => "watch",
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
        assert_eq!(Options::parse("limit=ten").unwrap_err().code, 400);
        for query in ["dryRun=Some", "fieldValidation=Maybe"] {
            let options = Options::parse(query).unwrap();
            assert_eq!(options.check(&Method::PUT, "").unwrap_err().code, 422, "{query}");
            assert!(options.check(&Method::GET, "").is_ok(), "{query}");
        }
    }
}
