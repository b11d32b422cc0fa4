//! Label and field selectors: parsed once per request, matched against every object of a list or watch.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::builtin::{self, syntax};
use crate::error::ApiError;
use crate::resource::Resource;

/// All requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<LabelRequirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelTest {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl LabelRequirement {
    /// What no object's labels could have is a slip, not a question.
    fn check(&self) -> Result<(), String> {
        let invalid = |text: &str, why: &str| format!("<nil>: Invalid value: {text:?}: {why}");
        if let Some(why) = syntax::qualified_name(&self.key).first() {
            return Err(invalid(&self.key, why));
        }
        let (LabelTest::In(values) | LabelTest::NotIn(values)) = &self.test else { return Ok(()) };
        for value in values {
            if value.starts_with('=') {
                return Err("found '=', expected: identifier".to_owned());
            }
            if let Some(why) = syntax::label_value(value).first() {
                return Err(invalid(value, why));
            }
        }
        Ok(())
    }
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            let refused = |why: String| ApiError::bad_request(format!("unable to parse requirement: {why}"));
            let requirement = parse_label(part).map_err(refused)?;
            requirement.check().map_err(refused)?;
            requirements.push(requirement);
        }
        Ok(Self(requirements))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|r| {
            let value = labels.get(&r.key);
            match &r.test {
                LabelTest::In(set) => value.is_some_and(|v| set.contains(v)),
                LabelTest::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
                LabelTest::Exists => value.is_some(),
                LabelTest::Absent => value.is_none(),
                LabelTest::Greater(than) => {
                    value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *than)
                }
                LabelTest::Less(than) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *than),
            }
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0u32, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_label(part: &str) -> Result<LabelRequirement, String> {
    let requirement = |key: &str, test| {
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!("found {part:?}, expected a label key"));
        }
        Ok(LabelRequirement { key: key.to_owned(), test })
    };
    if let Some(key) = part.strip_prefix('!') {
        return requirement(key, LabelTest::Absent);
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let values = vec![value.trim().to_owned()];
            return requirement(key, if negated { LabelTest::NotIn(values) } else { LabelTest::In(values) });
        }
    }
    for (operator, greater) in [('>', true), ('<', false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let bound = value.trim().parse().map_err(|_| format!("{value:?} is not an integer"))?;
            return requirement(
                key,
                if greater { LabelTest::Greater(bound) } else { LabelTest::Less(bound) },
            );
        }
    }
    let mut words = part.splitn(2, char::is_whitespace);
    let key = words.next().unwrap_or_default();
    let Some(rest) = words.next().map(str::trim) else {
        return requirement(key, LabelTest::Exists);
    };
    let (negated, set) = match rest.strip_prefix("notin") {
        Some(set) => (true, set),
        None => {
            (false, rest.strip_prefix("in").ok_or(format!("found {rest:?}, expected: in, notin, =, ==, !="))?)
        }
    };
    let set = set.trim().strip_prefix('(').and_then(|s| s.strip_suffix(')'));
    let values =
        set.ok_or("expected a list in parentheses")?.split(',').map(|v| v.trim().to_owned()).collect();
    requirement(key, if negated { LabelTest::NotIn(values) } else { LabelTest::In(values) })
}

/// All requirements must hold; each names a field by its path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldRequirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// `selectable` are the paths beside name and namespace that this kind offers.
    pub(crate) fn parse(text: &str, selectable: &[String]) -> Result<Self, ApiError> {
        let selector = Self::read(text)?;
        let offered = |path: &str| {
            matches!(path, "metadata.name" | "metadata.namespace") || selectable.iter().any(|s| s == path)
        };
        match selector.0.iter().find(|requirement| !offered(&requirement.path)) {
            None => Ok(selector),
            // Kinds with fields of their own have other words for it in Kubernetes.
            Some(FieldRequirement { path, .. }) if selectable.is_empty() => {
                Err(ApiError::bad_request(format!(
                    "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )))
            }
            Some(FieldRequirement { path, .. }) => {
                Err(ApiError::bad_request(format!("field label not supported: {path}")))
            }
        }
    }

    /// Whatever fields it names.
    pub(crate) fn read(text: &str) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for part in split_unescaped(text) {
            if part.trim().is_empty() {
                continue;
            }
            let (path, equal, value) = if let Some((path, value)) = part.split_once("!=") {
                (path, false, value)
            } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (path, true, value)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{part}'; can't understand '{part}'"
                )));
            };
            let path = path.trim().to_owned();
            requirements.push(FieldRequirement { path, equal, value: unescape(value) });
        }
        Ok(Self(requirements))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name this selector can match, when it says so.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.0.iter().find(|r| r.equal && r.path == "metadata.name").map(|r| r.value.as_str())
    }

    /// `object` must be in the version of `resource`.
    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.0.iter().all(|r| (builtin::field_value(resource, object, &r.path) == r.value) == r.equal)
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut start, mut parts, mut escaped) = (0, Vec::new(), false);
    for (i, c) in text.char_indices() {
        if c == ',' && !escaped {
            parts.push(&text[start..i]);
            start = i + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> String {
    let (mut out, mut escaped) = (String::with_capacity(value.len()), false);
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_operators() {
        let labels: BTreeMap<_, _> =
            [("app", "web"), ("tier", "front"), ("n", "5")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, api)", true),
            ("app notin (web,api)", false),
            ("other notin (x)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("n>4", true),
            ("n<5", false),
            ("app in (api),tier", false),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(&labels), expected, "{selector}");
        }
        for bad in ["app in web", "app within (x)", "a b=c", "=x", "n>many"] {
            assert_eq!(LabelSelector::parse(bad).unwrap_err().code, 400, "{bad}");
        }
    }

    #[test]
    fn field_operators() {
        let resources = builtin::resources();
        let pods = resources.iter().find(|r| r.plural == "pods").unwrap();
        let object = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": {}});
        for (selector, expected) in [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("spec.nodeName=n1,metadata.name=a", true),
            ("spec.nodeName!=n2", true),
            ("spec.hostNetwork=false", true),
            ("metadata.name=a\\,b", false),
        ] {
            let parsed = FieldSelector::parse(selector, &pods.selectable_fields).unwrap();
            assert_eq!(parsed.matches(pods, &object), expected, "{selector}");
        }
        assert_eq!(FieldSelector::parse("spec.other=x", &pods.selectable_fields).unwrap_err().code, 400);
    }
}
