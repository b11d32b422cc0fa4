//! The environment of a container: what the node gives, then `envFrom`, then `env`, with `$(VAR)` expanded.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, Pod};

use super::{
    fields::{self, Host},
    sources::{Kind, Sources},
};

/// Why an environment cannot be built; the texts are Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EnvError {
    #[error("{} {name:?} not found", kind.resource())]
    MissingSource { kind: Kind, name: String },
    #[error("couldn't find key {key} in {} {namespace}/{name}", if *kind == Kind::ConfigMap { "ConfigMap" } else { "Secret" })]
    MissingKey { kind: Kind, namespace: String, name: String, key: String },
    #[error("environment variable {name}: {message}")]
    Field { name: String, message: String },
}

/// An ordered environment in which later entries replace earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    entries: Vec<(String, String)>,
    positions: HashMap<String, usize>,
}

impl Environment {
    pub(super) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        let known = self.positions.get(&name).and_then(|position| self.entries.get_mut(*position));
        if let Some(entry) = known {
            entry.1 = value;
        } else {
            self.positions.insert(name.clone(), self.entries.len());
            self.entries.push((name, value));
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let position = self.positions.get(name)?;
        self.entries.get(*position).map(|(_, value)| value.as_str())
    }

    pub(super) fn into_entries(self) -> Vec<(String, String)> {
        self.entries
    }

    /// Replaces `$(NAME)` by its value; `$$` is a dollar, an unknown name stays as it is written.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut output = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            let (before, from_dollar) = rest.split_at(dollar);
            output.push_str(before);
            let after = from_dollar.get(1..).unwrap_or_default();
            if let Some(escaped) = after.strip_prefix('$') {
                output.push('$');
                rest = escaped;
            } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')'))
            {
                if let Some(value) = self.get(name) {
                    output.push_str(value);
                } else {
                    output.push_str("$(");
                    output.push_str(name);
                    output.push(')');
                }
                rest = tail;
            } else {
                output.push('$');
                rest = after;
            }
        }
        output.push_str(rest);
        output
    }
}

/// Builds the environment on top of what the node gives.
pub(super) fn build(
    pod: &Pod,
    container: &Container,
    host: Host<'_>,
    sources: &Sources,
    given: Environment,
) -> Result<Environment, EnvError> {
    let mut environment = given;
    for from in container.env_from.iter().flatten() {
        add_source(&mut environment, from, sources)?;
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, container, host, sources, variable, &environment)? {
            environment.set(&variable.name, value);
        }
    }
    Ok(environment)
}

/// Adds every entry of a ConfigMap or Secret.
pub(super) fn add_source(
    environment: &mut Environment,
    from: &EnvFromSource,
    sources: &Sources,
) -> Result<(), EnvError> {
    let (kind, name, optional) = if let Some(source) = &from.config_map_ref {
        (Kind::ConfigMap, &source.name, source.optional)
    } else if let Some(source) = &from.secret_ref {
        (Kind::Secret, &source.name, source.optional)
    } else {
        return Ok(());
    };
    let Some(entries) = sources.get(kind, name) else {
        if optional == Some(true) {
            return Ok(());
        }
        return Err(EnvError::MissingSource { kind, name: name.clone() });
    };
    let prefix = from.prefix.as_deref().unwrap_or_default();
    for (key, value) in entries {
        environment.set(format!("{prefix}{key}"), String::from_utf8_lossy(value));
    }
    Ok(())
}

/// The value of one variable; none if it is an optional one that is not there.
pub(super) fn value(
    pod: &Pod,
    container: &Container,
    host: Host<'_>,
    sources: &Sources,
    variable: &EnvVar,
    environment: &Environment,
) -> Result<Option<String>, EnvError> {
    let Some(from) = &variable.value_from else {
        return Ok(Some(environment.expand(variable.value.as_deref().unwrap_or_default())));
    };
    let field_error = |message| EnvError::Field { name: variable.name.clone(), message };
    if let Some(field) = &from.field_ref {
        return fields::field(pod, host, &field.field_path).map(Some).map_err(field_error);
    }
    if let Some(selector) = &from.resource_field_ref {
        return fields::resource(container, host, selector).map(Some).map_err(field_error);
    }
    let (kind, name, key, optional) = if let Some(selector) = &from.config_map_key_ref {
        (Kind::ConfigMap, &selector.name, &selector.key, selector.optional)
    } else if let Some(selector) = &from.secret_key_ref {
        (Kind::Secret, &selector.name, &selector.key, selector.optional)
    } else {
        return Ok(None);
    };
    let optional = optional == Some(true);
    match sources.get(kind, name).map(|entries| entries.get(key)) {
        Some(Some(value)) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        _ if optional => Ok(None),
        None => Err(EnvError::MissingSource { kind, name: name.clone() }),
        Some(None) => Err(EnvError::MissingKey {
            kind,
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: name.clone(),
            key: key.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const HOST: Host<'_> = Host { node: "n", address: LOOPBACK, pod_address: LOOPBACK, cpus: 1, memory: 1 };

    fn run(container: serde_json::Value, sources: &Sources) -> Result<Vec<(String, String)>, EnvError> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}})).unwrap();
        let container: Container = serde_json::from_value(container).unwrap();
        let mut given = Environment::default();
        given.set("GIVEN", "g");
        build(&pod, &container, HOST, sources, given).map(Environment::into_entries)
    }

    #[test]
    fn expands_what_was_defined_before() {
        let mut environment = Environment::default();
        environment.set("A", "1");
        let cases = [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("100$", "100$"),
        ];
        for (text, expected) in cases {
            assert_eq!(environment.expand(text), expected, "{text}");
        }
    }

    #[test]
    fn later_sources_win() {
        let sources = Sources::default().with(Kind::ConfigMap, "m", &[("A", "map"), ("B", "map")]).with(
            Kind::Secret,
            "s",
            &[("B", "secret")],
        );
        let entries = run(
            json!({"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}},
                {"prefix": "P_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "none", "optional": true}}],
                "env": [{"name": "A", "value": "own"}, {"name": "C", "value": "$(A)-$(B)-$(GIVEN)"},
                {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "B"}}},
                {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "F", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "none", "optional": true}}}]}),
            &sources,
        )
        .unwrap();
        let entries: Vec<_> = entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            entries,
            ["GIVEN=g", "A=own", "B=secret", "P_B=secret", "C=own-secret-g", "D=secret", "E=p"]
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let sources = Sources::default().with(Kind::ConfigMap, "m", &[]);
        let missing = |from: serde_json::Value| {
            run(json!({"name": "c", "env": [{"name": "X", "valueFrom": from}]}), &sources)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            missing(json!({"configMapKeyRef": {"name": "none", "key": "k"}})),
            r#"configmap "none" not found"#
        );
        assert_eq!(
            missing(json!({"secretKeyRef": {"name": "none", "key": "k"}})),
            r#"secret "none" not found"#
        );
        assert_eq!(
            missing(json!({"configMapKeyRef": {"name": "m", "key": "k"}})),
            "couldn't find key k in ConfigMap ns/m"
        );
    }
}
