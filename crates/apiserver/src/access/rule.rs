//! One RBAC rule: what it allows, whether it covers another rule, and how it is written in messages.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::Attributes;

/// A `PolicyRule`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

impl Rule {
    /// The `rules` of a Role or ClusterRole.
    pub(super) fn list(object: &Value) -> Vec<Self> {
        object["rules"].as_array().into_iter().flatten().map(Self::from_json).collect()
    }

    fn from_json(rule: &Value) -> Self {
        let strings = |key: &str| {
            let list = rule[key].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: strings("verbs"),
            groups: strings("apiGroups"),
            resources: strings("resources"),
            names: strings("resourceNames"),
            urls: strings("nonResourceURLs"),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut rule = Map::new();
        for (key, values) in self.fields() {
            if !values.is_empty() {
                rule.insert(key.to_owned(), json!(values));
            }
        }
        Value::Object(rule)
    }

    pub(super) fn allows(&self, a: &Attributes<'_>) -> bool {
        if !has(&self.verbs, a.verb) {
            return false;
        }
        match a.path {
            Some(path) => self.urls.iter().any(|url| url_covers(url, path)),
            None => {
                has(&self.groups, a.group)
                    && self.resources.iter().any(|r| resource_matches(r, a.resource, a.subresource))
                    && (self.names.is_empty() || self.names.iter().any(|n| n == a.name))
            }
        }
    }

    /// The parts of this rule that `owned` rules do not grant: none means it is covered.
    pub(super) fn not_covered_by(&self, owned: &[Self]) -> Vec<Self> {
        self.broken_down().into_iter().filter(|part| !owned.iter().any(|rule| rule.covers(part))).collect()
    }

    /// Whether this rule grants all of `part`, which is a broken-down rule.
    fn covers(&self, part: &Self) -> bool {
        let contains_all = |mine: &[String], theirs: &[String]| theirs.iter().all(|v| has(mine, v));
        contains_all(&self.verbs, &part.verbs)
            && contains_all(&self.groups, &part.groups)
            && part.resources.iter().all(|wanted| {
                let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
                self.resources.iter().any(|r| resource_matches(r, resource, subresource))
            })
            && (self.names.is_empty()
                || (!part.names.is_empty() && part.names.iter().all(|n| self.names.contains(n))))
            && part.urls.iter().all(|wanted| self.urls.iter().any(|url| url_covers(url, wanted)))
    }

    /// The same rights as rules with one verb and one group, resource and name, or one URL, each.
    fn broken_down(&self) -> Vec<Self> {
        let one = |v: &String| vec![v.clone()];
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for group in &self.groups {
                for resource in &self.resources {
                    let part = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        parts.push(part);
                    } else {
                        parts.extend(self.names.iter().map(|n| Self { names: one(n), ..part.clone() }));
                    }
                }
            }
            for url in &self.urls {
                parts.push(Self { verbs: one(verb), urls: one(url), ..Self::default() });
            }
        }
        parts
    }

    fn fields(&self) -> [(&'static str, &[String]); 5] {
        [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("nonResourceURLs", &self.urls),
            ("resourceNames", &self.names),
            ("verbs", &self.verbs),
        ]
    }

    /// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`
    fn describe(&self) -> String {
        let mut parts = Vec::new();
        for (key, values) in self.fields() {
            if values.is_empty() {
                continue;
            }
            let title = match key {
                "apiGroups" => "APIGroups",
                "resources" => "Resources",
                "nonResourceURLs" => "NonResourceURLs",
                "resourceNames" => "ResourceNames",
                _ => "Verbs",
            };
            parts.push(format!("{title}:{}", quoted_list(values)));
        }
        format!("{{{}}}", parts.join(", "))
    }
}

/// Rules in messages: those that differ in their verb alone become one, the lines are sorted.
pub(super) fn describe_all(rules: &[Rule]) -> Vec<String> {
    let mut compact: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = compact.iter_mut().find(|c| {
            c.groups == rule.groups
                && c.resources == rule.resources
                && c.names == rule.names
                && c.urls.is_empty()
                && rule.urls.is_empty()
        });
        match same {
            Some(same) => same.verbs.extend(rule.verbs.iter().cloned()),
            None => compact.push(rule.clone()),
        }
    }
    let mut lines: Vec<String> = compact.iter().map(Rule::describe).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// `["a" "b"]`, the way Kubernetes writes lists of strings in messages.
pub(super) fn quoted_list(values: &[String]) -> String {
    let mut text = String::from("[");
    for (index, value) in values.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        let _ = write!(text, "{space}{value:?}");
    }
    text.push(']');
    text
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|v| v == "*" || v == wanted)
}

/// `pods`, `pods/log`, `*`, or `*/scale` for that subresource of everything.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    match rule.split_once('/') {
        Some((left, right)) => {
            !subresource.is_empty() && right == subresource && (left == "*" || left == resource)
        }
        None => subresource.is_empty() && rule == resource,
    }
}

/// `*`, a path, or a path prefix that ends in `*`. `wanted` may itself be such a pattern.
fn url_covers(url: &str, wanted: &str) -> bool {
    url == "*" || url == wanted || url.strip_suffix('*').is_some_and(|prefix| wanted.starts_with(prefix))
}
